//! A pool of connections for transfers.

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
    /// Maximum number of idle connections to keep.
    most: usize,
}

impl Pool {
    /// Opens no connection before it is needed.
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

    /// Runs an operation over a connection.
    ///
    /// A connection may have died while it was idle. The operation is then repeated over another
    /// one, the last time over a new one.
    pub fn with<T>(
        self: &Arc<Self>,
        work: impl Fn(&mut Session<Process>) -> io::Result<T>,
    ) -> io::Result<T> {
        let (done, lease) = self.take(work)?;
        lease.give_back();
        Ok(done)
    }

    /// Like [`Pool::with`], but also returns the connection.
    ///
    /// There is no limit on connections: a caller that holds some and had to wait for one more
    /// could wait for itself.
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

/// Exclusive use of a connection. Dropping it closes the connection, unless it was given back.
pub struct Lease {
    pub session: Session<Process>,
    pool: Arc<Pool>,
}

impl Lease {
    /// Returns the connection to the pool, if it is still usable.
    pub fn give_back(self) {
        let mut idle = self.pool.idle();
        if !self.session.is_lost() && idle.len() < self.pool.most {
            idle.push(self.session);
        }
    }
}
