//! Body of a fuzz target, so that plain tests can replay its corpus. Not part of the public API.

use refloat_sqltext::LexMode;
use refloat_wire::Vendor;

use crate::definition::{
    ServerVersion, differences, fingerprint, without_auto_increment, written_for,
};

/// Separates two definitions, on a line of its own.
const BETWEEN: &[u8] = b"\n-- is compared with --\n";
/// Servers that definitions are written for.
const SERVERS: [ServerVersion; 4] = [
    server(Vendor::MariaDb, (10, 11, 8)),
    server(Vendor::MariaDb, (11, 8, 2)),
    server(Vendor::MySql, (5, 7, 44)),
    server(Vendor::MySql, (9, 7, 0)),
];

const fn server(vendor: Vendor, version: (u16, u16, u16)) -> ServerVersion {
    ServerVersion { vendor, version }
}

/// Compares two definitions of a table: what a dump says, and what a server made of it. The first
/// byte chooses the server and how the dump is read.
pub fn definitions(data: &[u8]) {
    let [choice, text @ ..] = data else {
        return;
    };
    let between = memchr::memmem::find(text, BETWEEN);
    let (dump, create) = between.map_or((text, text), |at| {
        (&text[..at], &text[at + BETWEEN.len()..])
    });
    let create = String::from_utf8_lossy(create);
    let server = SERVERS[usize::from(*choice) % SERVERS.len()];
    let mode = LexMode {
        ansi_quotes: choice & 0x40 != 0,
        no_backslash_escapes: choice & 0x80 != 0,
        ..LexMode::default()
    };
    drop(differences(server, "d.t", dump, mode, &create));
    drop(written_for(dump, mode, server));
    let without = without_auto_increment(&create);
    assert!(without.len() <= create.len());
    fingerprint(&create);
}

#[cfg(test)]
mod tests {
    use refloat_testkit::corpus;

    use super::*;

    #[test]
    fn seeds_of_definitions_and_what_is_like_them() {
        corpus::replay("definitions", 4, definitions);
    }
}
