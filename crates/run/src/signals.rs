//! Handlers for Ctrl-C and similar signals, for programs that want them.

use std::io;
use std::thread::JoinHandle;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::{Cancel, CancelReason};

/// Removes the handlers when dropped.
#[must_use = "the handlers work as long as the guard lives"]
pub struct SignalGuard {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Installs process-wide handlers for SIGINT, SIGTERM and SIGHUP. The first signal cancels the run,
/// the second requests the hard stop, and the third ends the process as if there were no handlers.
pub fn install_signal_handlers(cancel: &Cancel) -> io::Result<SignalGuard> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let handle = signals.handle();
    let cancel = cancel.clone();
    let thread = std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for (count, signal) in signals.forever().enumerate() {
                match count {
                    0 => cancel.cancel(CancelReason::Signal(signal)),
                    1 => cancel.cancel_hard(CancelReason::Signal(signal)),
                    _ => drop(signal_hook::low_level::emulate_default_handler(signal)),
                }
            }
        })?;
    Ok(SignalGuard {
        handle,
        thread: Some(thread),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn first_cancels_second_is_hard() {
        let cancel = Cancel::new();
        let guard = install_signal_handlers(&cancel).unwrap();
        signal_hook::low_level::raise(SIGHUP).unwrap();
        assert!(cancel.sleep(Duration::from_secs(10)));
        assert_eq!(cancel.reason(), Some(CancelReason::Signal(SIGHUP)));
        assert!(!cancel.is_hard());
        signal_hook::low_level::raise(SIGHUP).unwrap();
        for _ in 0..500 {
            if cancel.is_hard() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(cancel.is_hard());
        drop(guard);
    }
}
