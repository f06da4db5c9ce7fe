//! Checks whether a source is a dump, and complete as far as can be seen before it is read.

use refloat_run::{Cancel, Refusal};
use refloat_source::layout::Layout;
use refloat_store::{Input, LooksLike};

use crate::error::LoadError;
use crate::options::LoadOptions;
use crate::outline::Outline;

/// Checks whether a stream is a dump, and complete as far as can be seen; `None` if it cannot be
/// read twice.
pub fn at_stream(
    options: &LoadOptions,
    input: &mut Input,
    cancel: &Cancel,
) -> Result<Option<Outline>, LoadError> {
    let content = input.content()?;
    if !matches!(content, LooksLike::Sql | LooksLike::Text) {
        return Err(LoadError::Refused(vec![Refusal {
            reason: format!(
                "{}: this is not an SQL dump, it looks like {content}",
                input.name()
            ),
            hint: hint_for(content, input.name()),
        }]));
    }
    if !input.rewindable() {
        return Ok(None);
    }
    let outline = if input.compression() == refloat_store::Compression::None {
        Outline::of(&options.source, input.name(), options, cancel)?
    } else {
        Outline::of_compressed(input, options, cancel)?
    };
    if let Some(outline) = &outline {
        let end = input.total_bytes().unwrap_or(0);
        LoadError::refuse_cut(options, outline.frame.is_cut(), (input.name(), end))?;
    }
    Ok(outline)
}

/// What to do about a source that is not a dump.
fn hint_for(content: LooksLike, name: &str) -> String {
    if content == LooksLike::Utf16 {
        let to = name.strip_suffix(".sql").unwrap_or(name);
        return format!(
            "Convert it: iconv -f UTF-16 -t UTF-8 {name} > {to}-utf8.sql (PowerShell's > writes UTF-16; the dump programs write the file themselves with --result-file)."
        );
    }
    "Give a file that mysqldump or mariadb-dump wrote, plain or compressed with gzip, zstd, xz or bzip2."
        .to_owned()
}

/// The refusals of a source that is incomplete.
pub fn not_whole(layout: &Layout) -> Vec<Refusal> {
    let hint = format!(
        "Make the dump again, or list everything that is wrong with `refloat inspect {}`.",
        layout.path.display()
    );
    layout
        .faults
        .iter()
        .map(|fault| Refusal {
            reason: format!(
                "{}: the source is not whole: {fault}",
                layout.path.display()
            ),
            hint: hint.clone(),
        })
        .collect()
}
