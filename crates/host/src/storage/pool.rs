//! Connections that transfers take and give back.

use std::ffi::OsString;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::process::Process;
use super::session::Session;
use super::url::SshUrl;

/// Connections to one account. Each carries one transfer at a time.
pub struct Pool {
    url: SshUrl,
    program: OsString,
    idle: Mutex<Vec<Session<Process>>>,
    /// Idle connections that are kept.
    most: usize,
}

impl Pool {
    /// None is opened before it is needed.
    pub fn new(url: SshUrl, program: OsString, most: usize) -> Self {
        Self {
            url,
            program,
            idle: Mutex::default(),
            most,
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session<Process>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something over a connection.
    ///
    /// A connection may have died while it was idle; then this is done again over another one, the
    /// last time over a new one.
    pub fn with<T>(
        self: &Arc<Self>,
        work: impl Fn(&mut Session<Process>) -> io::Result<T>,
    ) -> io::Result<T> {
        let (done, lease) = self.take(work)?;
        lease.give_back();
        Ok(done)
    }

    /// Does something over a connection as [`Pool::with`] does, and returns the connection as well.
    ///
    /// A caller that holds many gets as many: if it had to wait for one, it might wait for itself.
    pub fn take<T>(
        self: &Arc<Self>,
        work: impl Fn(&mut Session<Process>) -> io::Result<T>,
    ) -> io::Result<(T, Lease)> {
        loop {
            let idle = self.idle().pop();
            let was_idle = idle.is_some();
            let mut lease = Lease {
                session: idle.map_or_else(|| self.open(), Ok)?,
                pool: Arc::clone(self),
            };
            match work(&mut lease.session) {
                Ok(done) => return Ok((done, lease)),
                Err(_) if was_idle && lease.session.is_lost() => {}
                Err(error) => {
                    lease.give_back();
                    return Err(error);
                }
            }
        }
    }

    fn open(&self) -> io::Result<Session<Process>> {
        let mut session = Session::begin(Process::start(&self.program, &self.url)?)?;
        session.stream().is_greeted()?;
        Ok(session)
    }
}

/// A connection that nobody else uses. It ends with this, unless it is given back.
pub struct Lease {
    pub session: Session<Process>,
    pool: Arc<Pool>,
}

impl Lease {
    /// Keeps the connection for others, if it is of use.
    pub fn give_back(self) {
        let mut idle = self.pool.idle();
        if !self.session.is_lost() && idle.len() < self.pool.most {
            idle.push(self.session);
        }
    }
}
