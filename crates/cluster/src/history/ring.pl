# Prints the history of a ring of write-sets (galera.cache) and what it holds of some seqnos, a line
# each: seqno, kind, identity, tables, and when its statements began, in seconds since 1970 by the
# clock of the server that they ran on.
# Kinds: w a write-set, c a change of the membership, - one that was not applied anywhere.
# A buffer begins with: seqno, a pointer, its size, flags, where it is, its type (Galera's
# gcache_bh.hpp). What makes a write-set itself stands in its header from its 16th byte on: time,
# node, connection, transaction (write_set_ng.hpp). What is before that is written anew.
# A change of the membership names all members, by what each calls itself for one run of its server.
use strict;
my ($path, $low, $high) = @ARGV;
my ($head, $step, $most) = (24, 32 << 20, 4096);
open(my $ring, '<:raw', $path) or do { print STDERR "$path: $!\n"; exit 1 };
my $wanted = join '|', map { quotemeta(pack('q<', $_)) } ($low .. $high);
my ($start, $end) = (0, -s $ring);
read($ring, my $preamble, 1024);
print "history $1\n" if ($preamble // '') =~ /^GID: ([0-9a-f-]{36})/m;
while ($start < $end) {
    seek($ring, $start, 0);
    my $got = read($ring, my $part, $step + $head + $most);
    last unless $got;
    while ($part =~ /$wanted/g) {
        my $at = $-[0];
        last if $at >= $step;
        next if $at + $head > $got;
        pos($part) = $at + 1;
        my ($seqno, undef, $size, $flags, $store, $type) = unpack('q<Q<L<S<cc', substr($part, $at, $head));
        next if $store != 1 || $flags > 3 || $type < 0 || $size < $head || $size > $end - $start - $at;
        my $bytes = substr($part, $at + $head, $size - $head < $most ? $size - $head : $most);
        my ($kind, $identity, $time, %tables) = ('c', '-', '');
        if ($flags & 2) { $kind = '-' }
        elsif ($bytes =~ /^G/ && length($bytes) >= 64) {
            ($kind, $identity) = ('w', unpack('H*', substr($bytes, 16, 40)));
            # Table_map events of the binary log: before the type of an event stands its time. (That
            # of the header is of a clock that begins with the machine.)
            while ($bytes =~ /([\s\S]{4})\x13[\s\S]{22}(?=([\s\S])(\w[^\0]*)\0([\s\S])(\w[^\0]*)\0)/g) {
                next if ord($2) != length($3) || ord($4) != length($5);
                $tables{"$3.$5"} = 1;
                $time = unpack('L<', $1);
            }
        }
        elsif ($bytes =~ /^\0[0-9]+,/) { $identity = unpack('H*', $bytes) }
        else { next }
        print join(' ', $seqno, $kind, $identity, join(',', sort keys %tables), $time), "\n";
    }
    $start += $step;
}
