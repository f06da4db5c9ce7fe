//! Everything that goes wrong: bad input, refusals by the server, a server or a program that dies
//! midway. Every test runs the program itself against real servers, and checks its messages, its
//! exit code and what it leaves behind.

#[path = "faults/support.rs"]
mod support;

#[path = "faults/applied.rs"]
mod applied;
#[path = "faults/archives.rs"]
mod archives;
#[path = "faults/attributes.rs"]
mod attributes;
#[path = "faults/bombs.rs"]
mod bombs;
#[path = "faults/certificates.rs"]
mod certificates;
#[path = "faults/chance.rs"]
mod chance;
#[path = "faults/changing.rs"]
mod changing;
#[path = "faults/checked.rs"]
mod checked;
#[path = "faults/committed.rs"]
mod committed;
#[path = "faults/compared.rs"]
mod compared;
#[path = "faults/copied.rs"]
mod copied;
#[path = "faults/cutting.rs"]
mod cutting;
#[path = "faults/disk.rs"]
mod disk;
#[path = "faults/dumped.rs"]
mod dumped;
#[path = "faults/early.rs"]
mod early;
#[path = "faults/elsewhere.rs"]
mod elsewhere;
#[path = "faults/engines.rs"]
mod engines;
#[path = "faults/events.rs"]
mod events;
#[path = "faults/everything.rs"]
mod everything;
#[path = "faults/existing.rs"]
mod existing;
#[path = "faults/flags.rs"]
mod flags;
#[path = "faults/folded.rs"]
mod folded;
#[path = "faults/folders.rs"]
mod folders;
#[path = "faults/galera.rs"]
mod galera;
#[path = "faults/gentle.rs"]
mod gentle;
#[path = "faults/held.rs"]
mod held;
#[path = "faults/input.rs"]
mod input;
#[path = "faults/json.rs"]
mod json;
#[path = "faults/keyed.rs"]
mod keyed;
#[path = "faults/killed.rs"]
mod killed;
#[path = "faults/lagging.rs"]
mod lagging;
#[path = "faults/large.rs"]
mod large;
#[path = "faults/local_infile.rs"]
mod local_infile;
#[path = "faults/locks.rs"]
mod locks;
#[path = "faults/memory.rs"]
mod memory;
#[path = "faults/midway.rs"]
mod midway;
#[path = "faults/modes.rs"]
mod modes;
#[path = "faults/outage.rs"]
mod outage;
#[path = "faults/packets.rs"]
mod packets;
#[path = "faults/paused.rs"]
mod paused;
#[path = "faults/planned.rs"]
mod planned;
#[path = "faults/power.rs"]
mod power;
#[path = "faults/private.rs"]
mod private;
#[path = "faults/privileges.rs"]
mod privileges;
#[path = "faults/proof.rs"]
mod proof;
#[path = "faults/replicas.rs"]
mod replicas;
#[path = "faults/resumed.rs"]
mod resumed;
#[path = "faults/sealed.rs"]
mod sealed;
#[path = "faults/secrets.rs"]
mod secrets;
#[path = "faults/statements.rs"]
mod statements;
#[path = "faults/stopped.rs"]
mod stopped;
#[path = "faults/target.rs"]
mod target;
#[path = "faults/unique.rs"]
mod unique;
#[path = "faults/viewed.rs"]
mod viewed;
#[path = "faults/ways.rs"]
mod ways;
#[path = "faults/wide.rs"]
mod wide;
