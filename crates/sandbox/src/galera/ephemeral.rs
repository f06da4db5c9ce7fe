//! Clusters that are removed when the process that started them ends.

use std::ops::Deref;
use std::process::{Child, Command, Stdio};

use super::start::Reserved;
use super::{GaleraCluster, GaleraOptions, network};
use crate::{Error, Result, Sandbox};

/// A guard script. It waits for end-of-file on standard input, which comes when the process at the
/// other end is gone. It then kills every process of the cluster and deletes the cluster.
/// Arguments: the cluster's directory; the machine's interface in the cluster's network (or an
/// empty string); then the directories of the nodes and the names of the namespaces, which contain
/// no slash.
///
/// The patterns are passed through a pipe: as arguments they would make the search match itself.
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

impl Sandbox {
    /// Starts a cluster that is removed when the value is dropped or this process ends, however it
    /// ends.
    pub fn start_cluster_ephemeral(&self, options: &GaleraOptions) -> Result<EphemeralCluster> {
        let reserved = self.reserve_cluster(options)?;
        EphemeralCluster::start(self, reserved)
    }
}

/// A cluster that is removed when the value is dropped. It is also removed when this process ends
/// in any other way, even by SIGKILL or with the value in a `static`: a guard process waits for
/// that, and is started before the first node.
#[derive(Debug)]
pub struct EphemeralCluster {
    sandbox: Sandbox,
    cluster: GaleraCluster,
    guard: Guard,
}

impl EphemeralCluster {
    fn start(sandbox: &Sandbox, reserved: Reserved) -> Result<Self> {
        let name = reserved.record.name.clone();
        let guard = match Guard::new(&reserved) {
            Ok(guard) => guard,
            Err(error) => {
                let _ = sandbox.remove_cluster(&name);
                return Err(error);
            }
        };
        // If this fails, dropping the guard makes it retry whatever could not be removed.
        let cluster = sandbox.start_reserved(reserved)?;
        Ok(Self {
            sandbox: sandbox.clone(),
            cluster,
            guard,
        })
    }

    /// Removes the cluster now, and reports an error if that fails.
    pub fn remove(mut self) -> Result<()> {
        self.remove_once()
    }

    fn remove_once(&mut self) -> Result<()> {
        if self.guard.done {
            return Ok(());
        }
        let done = match self.sandbox.remove_cluster(self.cluster.name()) {
            // Already removed by another process.
            Err(Error::NoSuchCluster { .. }) => Ok(()),
            other => other,
        };
        // If the removal failed, the guard retries it at the end of its input.
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
        // Most failures in a cluster can be explained only from the nodes' logs.
        if std::thread::panicking() {
            for node in self.cluster.nodes() {
                eprintln!("{}", node.last_words());
            }
        }
        let _ = self.remove_once();
    }
}

/// The guard process that waits for the end of this one.
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
