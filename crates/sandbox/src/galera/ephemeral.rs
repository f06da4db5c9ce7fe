//! Clusters that go away with the process that started them.

use std::ops::Deref;
use std::process::{Child, Command, Stdio};

use super::GaleraCluster;
use super::network;
use super::start::Reserved;
use crate::{Error, Result, Sandbox};

/// Waits until its standard input ends, which is when the process that holds the other end is gone, then ends everything of
/// the cluster and deletes it. Arguments: the cluster's folder, the machine's interface in its network (or nothing), and then
/// the folders of the nodes and the names of namespaces, which have no slash.
///
/// The patterns go in by a pipe: as arguments they would find the search itself.
const GUARD: &str = r#"
cluster=$1 interface=$2
shift 2
read -r _
end() { # WHICH-FILE PATTERN
    for line in $(printf '%s' "$2" | grep -lzxF -f - /proc/[0-9]*/"$1" 2>/dev/null); do
        pid=${line#/proc/}
        kill -9 "${pid%/*}" 2>/dev/null
    done
}
forget() { # FOLDER
    removed="${1%/*}/.removed-$$-${1##*/}"
    mv -T -- "$1" "$removed" 2>/dev/null && rm -rf -- "$removed"
}
end cmdline "$cluster/haproxy.cfg"
for one; do
    case $one in
    */*)
        end cmdline "--datadir=$one/data"
        end environ "REFLOAT_SANDBOX_INSTANCE=$one"
        end environ "REFLOAT_SANDBOX_INSTANCE=$one"
        forget "$one"
        ;;
    esac
done
[ -z "$interface" ] || ip link del "$interface" 2>/dev/null
for one; do
    case $one in
    */*) ;;
    *) ip netns del "$one" 2>/dev/null ;;
    esac
done
forget "$cluster"
"#;

/// A cluster that is removed when the value is dropped, and also when this process ends in any way, even by SIGKILL and with
/// the value in a `static`: a guard process waits for that, from before the first node starts.
#[derive(Debug)]
pub struct EphemeralCluster {
    sandbox: Sandbox,
    cluster: GaleraCluster,
    guard: Guard,
}

impl EphemeralCluster {
    pub(super) fn start(sandbox: &Sandbox, reserved: Reserved) -> Result<Self> {
        let name = reserved.record.name.clone();
        let guard = match Guard::new(&reserved) {
            Ok(guard) => guard,
            Err(error) => {
                let _ = sandbox.remove_cluster(&name);
                return Err(error);
            }
        };
        // When it fails the guard tries to remove once more what could not be removed.
        let cluster = sandbox.start_reserved(reserved)?;
        Ok(Self {
            sandbox: sandbox.clone(),
            cluster,
            guard,
        })
    }

    /// Removes the cluster now, and says so if it cannot.
    pub fn remove(mut self) -> Result<()> {
        self.remove_once()
    }

    fn remove_once(&mut self) -> Result<()> {
        if self.guard.done {
            return Ok(());
        }
        let done = match self.sandbox.remove_cluster(self.cluster.name()) {
            // Somebody else removed it already.
            Err(Error::NoSuchCluster { .. }) => Ok(()),
            other => other,
        };
        // When it failed the guard tries again, at the end of its input.
        self.guard.end(done.is_ok());
        done
    }
}

impl Deref for EphemeralCluster {
    type Target = GaleraCluster;

    fn deref(&self) -> &GaleraCluster {
        &self.cluster
    }
}

impl Drop for EphemeralCluster {
    fn drop(&mut self) {
        // Most of what goes wrong in a cluster is told by the nodes' logs alone.
        if std::thread::panicking() {
            for node in self.cluster.nodes() {
                eprintln!("{}", node.last_words());
            }
        }
        let _ = self.remove_once();
    }
}

/// The process that waits for the end of this one.
#[derive(Debug)]
struct Guard {
    child: Child,
    done: bool,
}

impl Guard {
    fn new(reserved: &Reserved) -> Result<Self> {
        let network = reserved.record.network.as_ref();
        let mut command = Command::new("setsid");
        command
            .args(["sh", "-c", GUARD, "sh"])
            .arg(reserved.folder.path())
            .arg(network.map_or(String::new(), network::Network::interface))
            .args(reserved.nodes.iter().map(|folder| &folder.0))
            .args(network.map(network::parts).unwrap_or_default())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().map_err(|error| Error::Helper {
            program: "setsid".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { child, done: false })
    }

    fn end(&mut self, nothing_left: bool) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        if nothing_left {
            let _ = self.child.kill();
        }
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.end(false);
    }
}
