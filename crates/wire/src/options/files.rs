//! Reads option files (`my.cnf`) like the stock clients.
//!
//! Lines are `[group]`, `key=value`, `key`, `#` or `;` comments, `!include file` and
//! `!includedir folder` (its `*.cnf`, as on any Unix). A value may be quoted and may contain the
//! escapes `\b \t \n \r \\ \s`; `#` after white space starts a comment. The rules come from
//! `mysys/my_default.c` of the servers.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::url::set;
use super::{ConnectOptions, UrlError};
use crate::secret::Secret;

/// The groups that clients of either vendor read, and ours. Later files and lines win, whatever
/// their group.
const GROUPS: &[&str] = &[
    "client",
    "client-server",
    "client-mariadb",
    "mysql",
    "mariadb-client",
    "mariadb",
    "refloat",
];
/// Files read without `--defaults-file`, in this order; the one in the home folder comes last.
const SYSTEM_FILES: &[&str] = &["/etc/my.cnf", "/etc/mysql/my.cnf"];
const HOME_FILE: &str = ".my.cnf";
/// Maximum depth of `!include`, as in the servers.
const MAX_DEPTH: usize = 10;
/// Maximum length of an option file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Errors of reading option files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionFilesError {
    /// A file given by name cannot be read.
    #[error("option file {}", path.display())]
    Read {
        /// Path of the option file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line is neither a group, an option nor a comment, or its value is invalid.
    #[error("option file {}, line {line}: {reason}", path.display())]
    Line {
        /// Path of the option file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The reason, in words. It does not repeat the line, which may contain a password.
        reason: String,
    },
}

/// One option of a file: `key=value` or `key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOption {
    /// The group, without brackets.
    pub group: String,
    /// The name, with dashes, without `loose-`.
    pub key: String,
    /// The value; `None` for an option without `=`.
    pub value: Option<Secret>,
    /// Whether it had the prefix `loose-`: then it is silently ignored if unknown.
    pub loose: bool,
    /// The file that contains it.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: usize,
}

/// The contents of the option files.
#[derive(Debug, Clone, Default)]
pub struct OptionFiles {
    /// The options of all requested groups, in reading order.
    pub options: Vec<FileOption>,
    /// Messages for the user about ignored files.
    pub warnings: Vec<String>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
}

/// Reads the option files in the order of the stock clients: only `defaults_file` if given;
/// otherwise the system's, then `extra`, then `.my.cnf` in `home`. Missing files are skipped unless
/// given by name. With a `suffix`, groups such as `[client<suffix>]` count too.
pub fn load_option_files(
    defaults_file: Option<&Path>,
    extra: Option<&Path>,
    home: Option<&Path>,
    suffix: Option<&str>,
) -> Result<OptionFiles, OptionFilesError> {
    let mut groups: Vec<String> = GROUPS.iter().map(|g| (*g).to_owned()).collect();
    if let Some(suffix) = suffix {
        groups.extend(GROUPS.iter().map(|g| format!("{g}{suffix}")));
    }
    if let Some(file) = defaults_file {
        return read_groups(&[(file, true)], &groups);
    }
    let home = home.map(|folder| folder.join(HOME_FILE));
    let mut list: Vec<(&Path, bool)> = SYSTEM_FILES.iter().map(|f| (Path::new(f), false)).collect();
    list.extend(extra.map(|f| (f, true)));
    list.extend(home.as_deref().map(|f| (f, false)));
    read_groups(&list, &groups)
}

/// Reads these groups of these files. The flag of a file says whether it must exist.
pub fn read_groups(
    files: &[(&Path, bool)],
    groups: &[String],
) -> Result<OptionFiles, OptionFilesError> {
    let mut found = OptionFiles::default();
    for (file, needed) in files {
        match read_file(file, groups, 0, &mut found) {
            Err(OptionFilesError::Read { source, .. }) if !needed && is_absent(&source) => {}
            other => other?,
        }
    }
    Ok(found)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory
    )
}

fn read_file(
    path: &Path,
    groups: &[String],
    depth: usize,
    found: &mut OptionFiles,
) -> Result<(), OptionFilesError> {
    let unreadable = |source| OptionFilesError::Read {
        path: path.to_owned(),
        source,
    };
    let meta = fs::metadata(path).map_err(unreadable)?;
    if meta.is_file() && meta.permissions().mode() & 0o002 != 0 {
        found.warnings.push(format!(
            "{} is writable by everybody: ignored",
            path.display()
        ));
        return Ok(());
    }
    if meta.len() > MAX_FILE {
        return Err(unreadable(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "too long for an option file",
        )));
    }
    let bytes = fs::read(path).map_err(unreadable)?;
    found.files.push(path.to_owned());
    let text = String::from_utf8_lossy(&bytes);
    let mut group = None;
    for (number, line) in text.lines().enumerate() {
        let wrong = |reason: &str| OptionFilesError::Line {
            path: path.to_owned(),
            line: number + 1,
            reason: reason.to_owned(),
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(directive) = line.strip_prefix('!') {
            include(path, directive, groups, depth, found)
                .map_err(|e| e.unwrap_or_else(|reason| wrong(&reason)))?;
        } else if let Some(rest) = line.strip_prefix('[') {
            let (name, _) = rest
                .split_once(']')
                .ok_or_else(|| wrong("a group without its closing bracket"))?;
            group = Some(name.trim().to_owned());
        } else {
            let group = group
                .as_ref()
                .ok_or_else(|| wrong("an option before the first group"))?;
            if groups.contains(group) {
                let (key, value) = split_option(line);
                let key = key.replace('_', "-");
                let (key, loose) = key
                    .strip_prefix("loose-")
                    .map_or((key.as_str(), false), |k| (k, true));
                let value = value.map(|v| Secret::from(v.as_str()));
                found.options.push(FileOption {
                    group: group.clone(),
                    key: key.to_owned(),
                    value,
                    loose,
                    file: path.to_owned(),
                    line: number + 1,
                });
            }
        }
    }
    Ok(())
}

/// Why an `!include` failed: an error of its own, or a reason to report for the line.
enum IncludeError {
    Inner(OptionFilesError),
    Reason(String),
}

impl IncludeError {
    fn unwrap_or_else(self, f: impl FnOnce(String) -> OptionFilesError) -> OptionFilesError {
        match self {
            Self::Inner(error) => error,
            Self::Reason(reason) => f(reason),
        }
    }
}

fn include(
    from: &Path,
    directive: &str,
    groups: &[String],
    depth: usize,
    found: &mut OptionFiles,
) -> Result<(), IncludeError> {
    let (word, target) = directive
        .split_once(char::is_whitespace)
        .unwrap_or((directive, ""));
    let target = target.trim();
    if target.is_empty() || !matches!(word, "include" | "includedir") {
        return Err(IncludeError::Reason(
            "it is neither !include nor !includedir with a path".to_owned(),
        ));
    }
    if depth >= MAX_DEPTH {
        found.warnings.push(format!(
            "{}: included files are nested too deep, the rest is ignored",
            from.display()
        ));
        return Ok(());
    }
    let mut files = vec![PathBuf::from(target)];
    if word == "includedir" {
        let Ok(entries) = fs::read_dir(target) else {
            // Like the stock clients: a missing folder includes nothing.
            return Ok(());
        };
        files = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
        files.retain(|f| f.extension().is_some_and(|e| e == "cnf"));
        files.sort();
    }
    for file in files {
        match read_file(&file, groups, depth + 1, found) {
            Err(OptionFilesError::Read { source, .. }) if is_absent(&source) => {}
            other => other.map_err(IncludeError::Inner)?,
        }
    }
    Ok(())
}

/// Splits a line into name and value. The name ends at `=`; the value is trimmed, cut at its
/// comment, unquoted and unescaped.
fn split_option(line: &str) -> (String, Option<String>) {
    let cut = cut_comment(line).trim_end();
    let Some((key, value)) = cut.split_once('=') else {
        return (cut.to_owned(), None);
    };
    let value = value.trim();
    let quoted = value.len() >= 2 && value.starts_with(['"', '\'']) && value.ends_with(&value[..1]);
    let value = if quoted {
        &value[1..value.len() - 1]
    } else {
        value
    };
    (key.trim_end().to_owned(), Some(unescape(value)))
}

/// Removes a comment: `#` outside quotes and all that follows.
fn cut_comment(line: &str) -> &str {
    let mut quote = None;
    let mut escaped = false;
    for (i, c) in line.char_indices() {
        if (c == '"' || c == '\'') && !escaped {
            match quote {
                None => quote = Some(c),
                Some(open) if open == c => quote = None,
                Some(_) => {}
            }
        }
        if quote.is_none() && c == '#' {
            return &line[..i];
        }
        escaped = quote.is_some() && c == '\\' && !escaped;
    }
    line
}

fn unescape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('s') => out.push(' '),
            Some('"') => out.push('"'),
            Some('\'') => out.push('\''),
            Some('\\') | None => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
        }
    }
    out
}

impl OptionFiles {
    /// Applies the connection options of the files; later ones win. Options of the stock clients
    /// that do not concern the connection are ignored. Call this before applying command-line
    /// flags; a host given there must clear a socket set here.
    pub fn apply(&self, options: &mut ConnectOptions) -> Result<(), OptionFilesError> {
        let mut mode_given = false;
        for option in &self.options {
            let text = option
                .value
                .as_ref()
                .map(|v| String::from_utf8_lossy(v.expose()).into_owned());
            let text = text.as_deref();
            let wrong = |reason: String| OptionFilesError::Line {
                path: option.file.clone(),
                line: option.line,
                reason,
            };
            match option.key.as_str() {
                "user" => text.unwrap_or_default().clone_into(&mut options.user),
                // The stock clients prompt for a password without a value; here a separate flag
                // does that.
                "password" if option.value.is_none() => {}
                "password" => options.password.clone_from(&option.value),
                "skip-password" => options.password = Some(Secret::from("")),
                "host" => options.host = text.map(str::to_owned),
                "port" => {
                    let port = text.unwrap_or_default().parse().ok().filter(|p| *p != 0);
                    options.port = Some(port.ok_or_else(|| {
                        wrong("the port is no number between 1 and 65535".to_owned())
                    })?);
                }
                "database" => options.database = text.map(str::to_owned),
                "protocol" if text.is_some_and(|t| t.eq_ignore_ascii_case("tcp")) => {
                    options.socket = None;
                }
                // MariaDB's option names for TLS.
                "ssl" | "skip-ssl" | "ssl-verify-server-cert" | "skip-ssl-verify-server-cert" => {
                    let off = option.key.starts_with("skip-")
                        || text.is_some_and(|t| {
                            matches!(t.to_ascii_lowercase().as_str(), "0" | "off" | "false")
                        });
                    let verify = option.key.ends_with("verify-server-cert");
                    if !mode_given {
                        options.ssl_mode = match (verify, off) {
                            (true, false) => super::SslMode::VerifyIdentity,
                            (false, true) => super::SslMode::Disabled,
                            (false, false) => options.ssl_mode.max(super::SslMode::Required),
                            (true, true) => options.ssl_mode,
                        };
                    }
                }
                "max-allowed-packet" => {}
                key => match set(options, key, text.unwrap_or_default()) {
                    Ok(()) => mode_given |= key == "ssl-mode",
                    Err(UrlError::UnknownKey(_)) => {}
                    Err(_) if option.loose => {}
                    Err(error) => return Err(wrong(error.to_string())),
                },
            }
        }
        if options.ssl_ca.is_some()
            && !mode_given
            && options.ssl_mode < super::SslMode::VerifyCa
            && options.ssl_mode != super::SslMode::Disabled
        {
            options.ssl_mode = super::SslMode::VerifyCa;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
