//! The options of a server that runs here, or will, according to its option files.

use std::process::Command;

use crate::error::PhysicalError;

/// Prints the options in a server's files, as the server reads them.
const PROGRAM: &str = "my_print_defaults";
/// What the program calls the groups of a server of `MariaDB`.
pub const SERVER: [&str; 1] = ["--mysqld"];

/// Options by name, with `-` for `_`; the last one of a name counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerOptions(Vec<(String, String)>);

impl ServerOptions {
    /// Reads the groups in option files. `defaults` are the options that name the files; without
    /// any, they are those of this machine.
    ///
    /// # Errors
    /// The program that reads option files is missing, or cannot read them.
    pub fn read(defaults: &[String], groups: &[&str]) -> Result<Self, PhysicalError> {
        let failed = |reason: String| PhysicalError::Tool {
            tool: PROGRAM.to_owned(),
            what: "cannot read the server's option files".to_owned(),
            reason,
        };
        let output = Command::new(PROGRAM)
            .args(defaults)
            .args(groups)
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            // The first of its lines names the file.
            let said = String::from_utf8_lossy(&output.stderr);
            let said = refloat_host::plain(&said.trim().replace('\n', "; "));
            return Err(failed(if said.is_empty() {
                refloat_host::last_line(&output.stderr)
            } else {
                said
            }));
        }
        let stdout = String::from_utf8_lossy(&output.stdout);
        Ok(Self(stdout.lines().filter_map(option).collect()))
    }

    /// Reads the options of a server from the same files.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of_server(defaults: &[String]) -> Result<Self, PhysicalError> {
        // The second form is for MySQL's program.
        Self::read(defaults, &SERVER).or_else(|_| Self::read(defaults, &["mysqld", "server"]))
    }

    /// Adds arguments of the server, which take precedence over its files.
    pub fn add(&mut self, words: &[String]) {
        self.0.extend(words.iter().filter_map(|word| option(word)));
    }

    /// The value of an option. `None`: it is not there, or has none.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rfind(|(key, _)| key == name)?;
        Some(found.1.as_str()).filter(|value| !value.is_empty())
    }

    #[cfg(test)]
    pub fn of(words: &[&str]) -> Self {
        Self(words.iter().filter_map(|word| option(word)).collect())
    }
}

/// An option as `--name=value` or `--name`.
fn option(word: &str) -> Option<(String, String)> {
    let word = word.strip_prefix("--")?;
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let name = name.replace('_', "-");
    let name = name.strip_prefix("loose-").unwrap_or(&name).to_owned();
    (!name.is_empty()).then(|| (name, value.to_owned()))
}
