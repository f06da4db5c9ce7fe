//! Everything that goes wrong: bad input, refusals by the server, a server or a program that dies
//! midway. Every test runs the program itself against real servers, and checks its messages, its
//! exit code and what it leaves behind.

#[path = "faults/support.rs"]
mod support;

#[path = "faults/archives.rs"]
mod archives;
#[path = "faults/attributes.rs"]
mod attributes;
#[path = "faults/case_insensitive_names.rs"]
mod case_insensitive_names;
#[path = "faults/certificates.rs"]
mod certificates;
#[path = "faults/comparisons.rs"]
mod comparisons;
#[path = "faults/concurrent_ddl.rs"]
mod concurrent_ddl;
#[path = "faults/copies.rs"]
mod copies;
#[path = "faults/cutting_proxy.rs"]
mod cutting_proxy;
#[path = "faults/damaged_input.rs"]
mod damaged_input;
#[path = "faults/decompression_bombs.rs"]
mod decompression_bombs;
#[path = "faults/disk.rs"]
mod disk;
#[path = "faults/dumps.rs"]
mod dumps;
#[path = "faults/durability.rs"]
mod durability;
#[path = "faults/early_interrupts.rs"]
mod early_interrupts;
#[path = "faults/engines.rs"]
mod engines;
#[path = "faults/events.rs"]
mod events;
#[path = "faults/existing_objects.rs"]
mod existing_objects;
#[path = "faults/exit_codes.rs"]
mod exit_codes;
#[path = "faults/file_modes.rs"]
mod file_modes;
#[path = "faults/flags.rs"]
mod flags;
#[path = "faults/folders.rs"]
mod folders;
#[path = "faults/foreign_keys_checked.rs"]
mod foreign_keys_checked;
#[path = "faults/galera.rs"]
mod galera;
#[path = "faults/held_load.rs"]
mod held_load;
#[path = "faults/interruptions.rs"]
mod interruptions;
#[path = "faults/json.rs"]
mod json;
#[path = "faults/killed_copies.rs"]
mod killed_copies;
#[path = "faults/killed_prunes.rs"]
mod killed_prunes;
#[path = "faults/kills.rs"]
mod kills;
#[path = "faults/lagging_node.rs"]
mod lagging_node;
#[path = "faults/large_dumps.rs"]
mod large_dumps;
#[path = "faults/local_infile.rs"]
mod local_infile;
#[path = "faults/locks.rs"]
mod locks;
#[path = "faults/lost_commits.rs"]
mod lost_commits;
#[path = "faults/manifest_seal.rs"]
mod manifest_seal;
#[path = "faults/memory.rs"]
mod memory;
#[path = "faults/midway_failures.rs"]
mod midway_failures;
#[path = "faults/modes.rs"]
mod modes;
#[path = "faults/odd_keys.rs"]
mod odd_keys;
#[path = "faults/other_database.rs"]
mod other_database;
#[path = "faults/packets.rs"]
mod packets;
#[path = "faults/plans.rs"]
mod plans;
#[path = "faults/power_cuts.rs"]
mod power_cuts;
#[path = "faults/privileges.rs"]
mod privileges;
#[path = "faults/proof.rs"]
mod proof;
#[path = "faults/replica_positions.rs"]
mod replica_positions;
#[path = "faults/replicas.rs"]
mod replicas;
#[path = "faults/repositories.rs"]
mod repositories;
#[path = "faults/restores_elsewhere.rs"]
mod restores_elsewhere;
#[path = "faults/resume.rs"]
mod resume;
#[path = "faults/rows_above_max_packet.rs"]
mod rows_above_max_packet;
#[path = "faults/rows_through_views.rs"]
mod rows_through_views;
#[path = "faults/secrets.rs"]
mod secrets;
#[path = "faults/seeded.rs"]
mod seeded;
#[path = "faults/sigstop.rs"]
mod sigstop;
#[path = "faults/snapshot_cost.rs"]
mod snapshot_cost;
#[path = "faults/source_forms.rs"]
mod source_forms;
#[path = "faults/statements.rs"]
mod statements;
#[path = "faults/tablespaces.rs"]
mod tablespaces;
#[path = "faults/unique_keys.rs"]
mod unique_keys;
#[path = "faults/unready_targets.rs"]
mod unready_targets;
#[path = "faults/whole_server.rs"]
mod whole_server;
