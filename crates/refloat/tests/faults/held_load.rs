//! A load that waits midway through its rows, for tests of what happens meanwhile.

use std::io::Write as _;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use refloat_sandbox::Instance;
use refloat_testkit::servers;
use refloat_testkit::wait_until;
use refloat_wire::Connection;

use crate::support::{Desk, Run, Running, ask, dump, wide_table};

/// Rows of a chunk, for tests that count them.
pub const CHUNK: u64 = 500;
/// Rows of a load that waits. Half of them are so many bytes that keys are built after the rows,
/// and that some rows are committed before the others come.
pub const ROWS: u64 = 60_000;
/// How long a load may take once nothing holds it up.
pub const SOON: Duration = Duration::from_secs(120);

/// Counts the builds of indexes on a server.
pub const BUILDING: &str =
    "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'ALTER TABLE%ADD KEY%'";

/// A reader of a table of the desk, for which changes of the table's definition must wait.
pub fn reader_of(desk: &Desk, server: &Instance, table: &str) -> Connection {
    let mut reader = servers::connect(server);
    reader.exec("START TRANSACTION").unwrap();
    reader
        .query_value(format!("SELECT id FROM {}.{table} LIMIT 1", desk.db))
        .unwrap();
    reader
}

/// The dump that a load waits for.
pub fn text() -> String {
    dump(&wide_table("items", ROWS))
}

/// A load that reads from a pipe and waits midway through its rows.
pub struct Held {
    /// The load process.
    pub running: Running,
    /// The pipe that it reads from.
    pub stdin: ChildStdin,
    rest: String,
}

impl Held {
    /// Starts a load of [`text`] and feeds it half of the dump, until some rows are committed.
    pub fn start(desk: &Desk, server: &Instance, more: &[&str]) -> Self {
        Self::start_as(desk, server, more, |command| command)
    }

    /// Like [`Held::start`], on a machine with another name.
    pub fn start_elsewhere(desk: &Desk, server: &Instance) -> Self {
        Self::start_as(desk, server, &[], |command| {
            let mut elsewhere = Command::new("unshare");
            elsewhere
                .args([
                    "--uts",
                    "sh",
                    "-c",
                    "hostname elsewhere && exec \"$0\" \"$@\"",
                ])
                .arg(command.get_program())
                .args(command.get_args());
            for (name, value) in command.get_envs() {
                match value {
                    Some(value) => elsewhere.env(name, value),
                    None => elsewhere.env_remove(name),
                };
            }
            elsewhere.stdout(Stdio::piped()).stderr(Stdio::piped());
            elsewhere
        })
    }

    fn start_as(
        desk: &Desk,
        server: &Instance,
        more: &[&str],
        wrap: impl FnOnce(Command) -> Command,
    ) -> Self {
        let text = text();
        let half = text
            .find(&format!("\n({},", ROWS / 2))
            .expect("the row is there");
        let chunk = CHUNK.to_string();
        let mut command =
            desk.load_command(Path::new("-"), &server.url(), &["--chunk-rows", &chunk]);
        command.args(more);
        let command = wrap(command);
        let (running, stdin) = Running::start_with_stdin(command);
        let mut held = Self {
            running,
            stdin,
            rest: text[half..].to_owned(),
        };
        held.feed(&text[..half]);
        wait_until("rows are committed", || {
            desk.rows(server, "items").unwrap_or(0) >= CHUNK
        });
        held
    }

    fn feed(&mut self, text: &str) {
        self.stdin
            .write_all(text.as_bytes())
            .expect("the program reads");
        self.stdin.flush().expect("the program reads");
    }

    /// Feeds the rest of the dump, as far as the load still reads it.
    pub fn feed_rest(&mut self) {
        let _ = self.stdin.write_all(self.rest.as_bytes());
        let _ = self.stdin.flush();
    }

    /// Feeds the rest, and waits until an index of the table is being built, which waits for the
    /// returned reader to end its transaction.
    pub fn waits_with_an_index(mut self, desk: &Desk, server: &Instance) -> (Running, Connection) {
        let reader = reader_of(desk, server, "items");
        self.feed_rest();
        drop(self.stdin);
        wait_until("an index is being built", || ask(server, BUILDING) == "1");
        (self.running, reader)
    }

    /// Feeds the rest of the dump and waits for the load to finish.
    #[track_caller]
    pub fn goes_on(mut self) -> Run {
        self.feed_rest();
        drop(self.stdin);
        self.running.ends_within(SOON)
    }

    /// Waits for the end of a load that was told to stop.
    #[track_caller]
    pub fn ends(self) -> Run {
        self.running.stops()
    }
}
