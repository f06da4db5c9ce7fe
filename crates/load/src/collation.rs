//! Collations that can replace others.

use std::borrow::Cow;

use refloat_sqltext::LexMode;
use refloat_sqltext::ddl::replace_collations;

use super::options::LoadOptions;

/// The statement with its collations replaced as `--map-collation` asks.
pub fn mapped<'t>(options: &LoadOptions, text: &'t [u8], mode: LexMode) -> Cow<'t, [u8]> {
    let mapped = replace_collations(text, mode, |name| {
        let to = options.mapped_collation(&String::from_utf8_lossy(name));
        to.map(|to| to.as_bytes().to_vec())
    });
    mapped.map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The collations that sort most alike, best first; a server may have only some of them.
///
/// MySQL's `utf8mb4_0900_*` do not pad with spaces, like MariaDB's `*_nopad_*`.
pub fn substitutes(name: &str) -> Vec<String> {
    let mut list = Vec::new();
    if name == "utf8mb4_0900_bin" {
        list.push("utf8mb4_nopad_bin".to_owned());
        list.push("utf8mb4_bin".to_owned());
    } else if let Some(rest) = name.strip_prefix("utf8mb4_0900_") {
        list.push(format!("utf8mb4_uca1400_nopad_{rest}"));
        list.push("utf8mb4_unicode_520_nopad_ci".to_owned());
    } else if let Some(rest) = name
        .strip_prefix("utf8mb4_uca1400_nopad_")
        .or_else(|| name.strip_prefix("utf8mb4_uca1400_"))
        .or_else(|| name.strip_prefix("uca1400_"))
    {
        list.push(format!("utf8mb4_0900_{rest}"));
        list.push("utf8mb4_unicode_520_ci".to_owned());
    }
    let charset = name
        .split_once('_')
        .map_or("utf8mb4", |(charset, _)| charset);
    list.push(format!("{charset}_unicode_ci"));
    list.push(format!("{charset}_general_ci"));
    list
}

/// The other vendor's collation that sorts most alike.
pub fn other_collation(name: &str) -> String {
    match name {
        "utf8mb4_0900_bin" => "utf8mb4_bin".to_owned(),
        _ if name.starts_with("utf8mb4_0900_") || name.contains("uca1400_") => {
            substitutes(name).swap_remove(0)
        }
        _ => match name.split_once('_') {
            Some((charset, _)) => format!("{charset}_general_ci"),
            None => "utf8mb4_general_ci".to_owned(),
        },
    }
}
