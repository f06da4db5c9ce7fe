//! Lets a node of a Galera cluster fall behind while its files are copied.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use refloat_run::Run;
use refloat_run::desync::{self, Desync, same_node};
use refloat_wire::Connection;

use crate::about::ServerFacts;
use crate::donor::DonorOptions;
use crate::error::PhysicalError;

/// Does the work while the node may fall behind, if the options ask for that, and afterwards waits
/// until it has caught up. Settings that could not be put back are added to `left`.
pub fn while_desynced<T>(
    (options, facts): (&DonorOptions, &ServerFacts),
    run: &Run,
    left: &mut Vec<String>,
    work: impl FnOnce() -> Result<T, PhysicalError>,
) -> Result<T, PhysicalError> {
    if !options.desync {
        return work();
    }
    let connect = || {
        let conn = Connection::connect(&options.source)?;
        conn.expect_identity(&facts.identity())?;
        Ok(conn)
    };
    let mut control =
        same_node(connect).map_err(PhysicalError::server("connecting to the server"))?;
    let mut desync = Desync::new(run);
    // Caught, so that the setting is put back after a panic too.
    let result = catch_unwind(AssertUnwindSafe(|| {
        desync.begin(run, &mut control)?;
        work()
    }));
    // The connection may have been idle for hours.
    let mut fresh = None;
    if matches!(result, Ok(Ok(_))) && desync.is_open() {
        fresh = same_node(|| control.reconnect()).ok();
    }
    if let Some(conn) = &mut fresh {
        desync.catch_up(run, conn);
    }
    let (still, back) = desync.end(run, || control.reconnect());
    left.extend(still);
    match (back, &mut fresh) {
        (Ok(()), Some(conn)) => desync::await_synced(run, conn),
        (Ok(()), None) => {}
        // The copy is still good; only report what is left to do.
        (Err(error), _) => run.events.warn(format!(
            "a setting of the server was not put back: {}",
            refloat_host::chain(&error)
        )),
    }
    match result {
        Ok(done) => done,
        Err(panic) => resume_unwind(panic),
    }
}
