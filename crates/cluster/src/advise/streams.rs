//! The stream between two nodes: its container format, compression and encryption, and the program
//! that transfers it.

use super::encryption::{self, Encryption};
use super::facts::{NodeFacts, SST};
use super::mistake::{Effect, Found, MistakeKind};

/// Compression formats: name, programs that compress and decompress, and programs that only
/// decompress.
const FAMILIES: [(&str, &[&str], &[&str]); 6] = [
    ("gzip", &["gzip", "pigz"], &["gunzip", "unpigz", "zcat"]),
    ("zstd", &["zstd", "zstdmt", "pzstd"], &["unzstd", "zstdcat"]),
    ("lz4", &["lz4"], &["unlz4", "lz4cat"]),
    ("xz", &["xz", "pixz"], &["unxz", "xzcat"]),
    (
        "bzip2",
        &["bzip2", "pbzip2", "lbzip2"],
        &["bunzip2", "bzcat", "lbunzip2"],
    ),
    ("lzop", &["lzop"], &[]),
];

/// The program of a command line.
fn program(command: &str) -> &str {
    command.split_whitespace().next().unwrap_or_default()
}

/// The compression format of a command.
fn family(command: &str) -> Option<&'static str> {
    let name = program(command).rsplit('/').next().unwrap_or_default();
    let of = |(_, both, apart): &&(&str, &[&str], &[&str])| {
        both.contains(&name) || apart.contains(&name)
    };
    FAMILIES.iter().find(of).map(|(family, _, _)| *family)
}

/// Whether a command decompresses. `None`: its program is unknown.
fn takes_apart(command: &str) -> Option<bool> {
    let name = program(command).rsplit('/').next().unwrap_or_default();
    let (_, both, _) = FAMILIES
        .iter()
        .find(|(_, both, apart)| both.contains(&name) || apart.contains(&name))?;
    let decompresses = |word: &str| {
        matches!(word, "--decompress" | "--uncompress")
            || (word.starts_with('-') && !word.starts_with("--") && word.contains('d'))
    };
    Some(!both.contains(&name) || command.split_whitespace().skip(1).any(decompresses))
}

/// Compares the stream settings of two nodes.
pub(super) fn compare(from: &NodeFacts, to: &NodeFacts, method: &str, found: &mut Found) {
    if from.machine.is_none() || to.machine.is_none() {
        return;
    }
    encryption(from, to, method, found);
    if method != "mariabackup" {
        return;
    }
    let both = [from.name.as_str(), to.name.as_str()];
    let (given, taken) = (from.container(), to.container());
    if given != taken {
        found.fails(
            MistakeKind::Format,
            &both,
            format!(
                "{} as a donor sends {given}, and {} as a joiner expects {taken} ([sst] streamfmt)",
                from.name, to.name
            ),
            "set the same streamfmt in [sst] of every node",
        );
    }
    let (given, taken) = (from.transfer(), to.transfer());
    if given != taken {
        found.add(
            MistakeKind::Format,
            Effect::Unsafe,
            &both,
            format!("{} as a donor sends by {given}, and {} as a joiner receives by {taken} ([sst] transferfmt): nc does not encrypt, and may not notice the end", from.name, to.name),
            "set transferfmt=socat in [sst] of every node",
        );
    }
    compression(from, to, found);
}

fn compression(from: &NodeFacts, to: &NodeFacts, found: &mut Found) {
    use MistakeKind::{Compressor, MissingTool};
    let both = [from.name.as_str(), to.name.as_str()];
    let (packs, unpacks) = (
        from.option(SST, "compressor"),
        to.option(SST, "decompressor"),
    );
    if let Some(command) = packs
        && from.has(program(command)) == Some(false)
    {
        found.fails(
            MissingTool,
            &[&from.name],
            format!(
                "as a donor it needs {}, which is not there (compressor={command})",
                program(command)
            ),
            format!("install {}", program(command)),
        );
    }
    if let Some(command) = unpacks
        && to.has(program(command)) == Some(false)
    {
        found.fails(
            MissingTool,
            &[&to.name],
            format!(
                "as a joiner it needs {}, which is not there (decompressor={command})",
                program(command)
            ),
            format!("install {}", program(command)),
        );
    }
    match (packs, unpacks) {
        (Some(command), None) => found.fails(
            Compressor,
            &both,
            format!("{} as a donor compresses (compressor={command}), and {} as a joiner has no decompressor: it reads an archive that is none", from.name, to.name),
            "set compressor and decompressor in [sst] of every node",
        ),
        (None, Some(command)) => found.fails(
            Compressor,
            &both,
            format!("{} as a joiner decompresses (decompressor={command}), and {} as a donor has no compressor", to.name, from.name),
            "set compressor and decompressor in [sst] of every node",
        ),
        (Some(given), Some(taken)) => {
            if let (Some(one), Some(other)) = (family(given), family(taken))
                && one != other
            {
                found.fails(
                    Compressor,
                    &both,
                    format!("{} as a donor compresses by {one} (compressor={given}), and {} as a joiner expects {other} (decompressor={taken})", from.name, to.name),
                    "set the same pair of compressor and decompressor in [sst] of every node",
                );
            } else if takes_apart(taken) == Some(false) {
                found.fails(
                    Compressor,
                    &[&to.name],
                    format!("its decompressor={taken} compresses instead of taking apart"),
                    format!("write {} -dc", program(taken)),
                );
            }
        }
        (None, None) => {}
    }
}

fn encryption(from: &NodeFacts, to: &NodeFacts, method: &str, found: &mut Found) {
    let (given, taken) = (encryption::of(from, method), encryption::of(to, method));
    let unknown = |one: &Encryption| matches!(one, Encryption::Broken(_) | Encryption::Unknown);
    if unknown(&given)
        || unknown(&taken)
        || std::mem::discriminant(&given) == std::mem::discriminant(&taken)
    {
        return;
    }
    found.fails(
        MistakeKind::Encryption,
        &[&from.name, &to.name],
        format!(
            "{} as a donor {}, and {} as a joiner {}",
            from.name,
            given.words(),
            to.name,
            taken.words()
        ),
        "set the same encrypt and ssl-mode in [sst] of every node",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressors_and_what_takes_apart() {
        assert_eq!(family("/usr/bin/pigz -p4"), Some("gzip"));
        assert_eq!(family("zcat"), Some("gzip"));
        assert_eq!(family("mystery"), None);
        for (command, apart) in [
            ("zstd -dc", Some(true)),
            ("zstd -T0 --decompress", Some(true)),
            ("pigz -cd -p 4", Some(true)),
            ("unzstd", Some(true)),
            ("gzip", Some(false)),
            ("zstd --fast -T4", Some(false)),
            ("mystery -x", None),
        ] {
            assert_eq!(takes_apart(command), apart, "{command}");
        }
    }
}
