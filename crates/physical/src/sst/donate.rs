//! The donor's end.

use std::time::Duration;

use refloat_run::{Refusal, Run};

use super::{Announced, Caller, Greeting};
use crate::about::GaleraPosition;
use crate::donor::{Donor, DonorOptions};
use crate::error::PhysicalError;
use crate::outside_files;
use crate::serve::send;
use crate::transfer::{Received, Secret, Sender, Sent};

/// What a donor sends, and to whom.
#[derive(Debug, Clone)]
pub struct DonateOptions {
    /// The vendor of the donor's server.
    pub caller: Caller,
    /// The server, and how it is copied.
    pub donor: DonorOptions,
    /// `HOST:PORT` where the joiner listens.
    pub peer: String,
    /// The secret of the transfer, with the certificates.
    pub secret: Secret,
    /// Where the server stood in the cluster's history when the joiner asked.
    pub position: GaleraPosition,
    /// `wsrep_gtid_domain_id` of the donor.
    pub domain: u32,
    /// Whether the joiner only has to be told that it gets write-sets.
    pub bypass: bool,
    /// Why nothing can be sent. The joiner is told.
    pub refused: Option<String>,
    /// Number of TCP connections of the copy.
    pub streams: u16,
}

/// Sends a joiner the server's files, or tells it that it needs none. Returns what was sent.
///
/// # Errors
/// [`PhysicalError`]. The joiner is told too, if it can be reached.
pub fn donate(options: &DonateOptions, run: &Run) -> Result<Sent, PhysicalError> {
    let greet = || Sender::greet(&options.peer, &options.secret, &run.cancel);
    if let Some(why) = &options.refused {
        if let Ok(sender) = greet() {
            sender.give_up(why);
        }
        return Err(PhysicalError::refused(Refusal::new(why.clone()).hint(
            "Name the same authority on all nodes: docs/sst.md says where.",
        )));
    }
    let donor = match look(options) {
        Ok(donor) => donor,
        Err(error) => {
            if let Ok(sender) = greet() {
                sender.give_up(&refloat_host::chain(&error));
            }
            return Err(error);
        }
    };
    let greeting = Greeting {
        position: options.position.clone(),
        domain: options.domain,
        copy: donor.as_ref().map(|donor| Announced {
            host: donor.server.facts.hostname.clone(),
            bytes: donor.volume.bytes,
            room: donor.volume.room,
            tool: donor.tool.version,
            server: Some(donor.server.info.version),
        }),
    };
    let words = Received {
        files: Vec::new(),
        about: None,
        words: serde_json::to_string(&greeting).unwrap_or_default(),
    };
    let sent = greet()?.finish(&serde_json::to_vec(&words).unwrap_or_default())?;
    let Some(donor) = donor else {
        return Ok(sent);
    };
    let mut blocked = Duration::ZERO;
    let sent = send(
        &donor,
        (&options.peer, &options.secret, options.streams),
        run,
        &mut blocked,
    )?;
    run.events
        .note(format!("commits waited for {:.1} s", blocked.as_secs_f64()));
    Ok(sent)
}

/// The server to be copied. `None`: no copy is needed.
fn look(options: &DonateOptions) -> Result<Option<Donor>, PhysicalError> {
    if options.bypass {
        return Ok(None);
    }
    let (donor, mut against) = Donor::look_at_parent(&options.donor)?;
    // The joiner would replicate from the same source, by settings that came with the files.
    if options.caller == Caller::Percona && donor.server.is_replica {
        against.push(
            Refusal::new("the donor replicates from a server outside of the cluster").hint(
                "Name another node in wsrep_sst_donor, or use wsrep_sst_method=xtrabackup-v2.",
            ),
        );
    }
    let outside = &donor.server.tables_outside;
    if let Some(one) = outside.first() {
        let refusal = outside_files::tables(outside.len(), one);
        against.push(
            Refusal::new(refusal.reason)
                .hint("Move them into it, or use another SST method: the joiner would find old files in these places."),
        );
    }
    if against.is_empty() {
        Ok(Some(donor))
    } else {
        Err(PhysicalError::Refused(against))
    }
}
