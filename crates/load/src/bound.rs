//! The bottleneck of a load: CPU, disk, locks or network, as far as it can be measured from here.

use std::sync::Arc;
use std::time::Instant;

use refloat_run::bound::{Figures, verdict};
use refloat_run::machine::Machine;
use refloat_run::probe::{ServerProbe, Usage, own_usage, thread_usage};
use refloat_wire::Connection;

use super::context::Context;

/// Usage figures taken when the rows begin, to compare with those at the end.
pub struct Watch {
    ctx: Arc<Context>,
    probe: Option<ServerProbe>,
    started: Instant,
    server: Option<Usage>,
    usage: Option<Usage>,
    reader: Option<Usage>,
    lock_wait: f64,
}

impl Watch {
    /// Takes the first figures, in the thread that will read the dump.
    pub fn start(ctx: &Arc<Context>, probe: Option<ServerProbe>, conn: &mut Connection) -> Self {
        Self {
            ctx: Arc::clone(ctx),
            probe,
            started: Instant::now(),
            server: probe.and_then(|probe| probe.usage()),
            usage: own_usage(),
            reader: thread_usage(),
            lock_wait: lock_wait(conn),
        }
    }

    /// Takes the last figures, in the same thread; returns the verdict as a sentence, `None` when
    /// usage cannot be measured.
    pub fn verdict(&self, conn: &mut Connection) -> Option<String> {
        let wall = self.started.elapsed().as_secs_f64();
        let server = self.probe.and_then(|probe| probe.usage()).zip(self.server);
        let usage = own_usage()?;
        let server_cpu = server.map(|(now, then)| now.cpu_seconds - then.cpu_seconds);
        let reader = thread_usage().zip(self.reader);
        let client_cpu = usage.cpu_seconds - self.usage?.cpu_seconds;
        let (waiting_for_source, waiting_for_server) = self.ctx.waits();
        let cores = Machine::here()?.cores as f64;
        let figures = Figures {
            wall,
            cores,
            workers: self.ctx.options.threads as f64,
            server_cpu,
            client_cpu,
            server_disk_wait: server
                .map(|(now, then)| now.disk_wait_seconds - then.disk_wait_seconds),
            lock_wait: lock_wait(conn) - self.lock_wait,
            waiting_for_source,
            waiting_for_server,
            reader_cpu: reader.map_or(0.0, |(now, then)| now.cpu_seconds - then.cpu_seconds),
        };
        let server_text = server_cpu.map_or_else(
            || "not on this machine".to_owned(),
            |cpu| format!("{cpu:.1} s"),
        );
        Some(format!(
            "{} (CPU: server {server_text}, refloat {client_cpu:.1} s, of {:.1} s on {cores} cores)",
            verdict(&figures),
            wall * cores
        ))
    }
}

/// Seconds that sessions have spent waiting for row locks since the server started.
fn lock_wait(conn: &mut Connection) -> f64 {
    let result = conn
        .query("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_time'")
        .ok();
    result
        .and_then(|result| result.u64(0, 1))
        .map_or(0.0, |millis| millis as f64 / 1000.0)
}
