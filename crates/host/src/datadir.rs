//! Data directories: what they hold, which server works in them, and setting them aside for a copy.

use std::path::{Path, PathBuf};

use crate::error::HostError;
use crate::files::{SERVER_RUNS, word};
use crate::host::Host;

/// A data directory, as its machine shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Its path, with symbolic links resolved.
    pub path: PathBuf,
    /// The file system it is on: the boot id of the kernel, and the device number. `None`: unknown.
    pub disk: Option<String>,
    /// Free bytes on its file system.
    pub free: u64,
    /// Its size on disk, in bytes.
    pub used: u64,
    /// Why it cannot be renamed. `None`: it can.
    pub fixed: Option<String>,
    /// Whether it holds a server's data.
    pub holds: bool,
}

/// Examines a data directory.
///
/// # Errors
/// [`HostError`]: the machine cannot be reached, or says why not.
pub fn look_at(host: &Host, datadir: &Path) -> Result<Folder, HostError> {
    let word = word(datadir);
    let script = format!(
        "real=$(readlink -f -- {word}) && [ -d \"$real\" ] || {{ echo 'there is no such folder' >&2; exit 1; }}\n\
         printf '%s\\n' \"$real\"\n\
         boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null) && device=$(stat -c %d -- \"$real\") && printf '%s %s' \"$boot\" \"$device\"; echo\n\
         df -PB1 -- \"$real\" | awk 'NR == 2 {{ print $4 }}'\n\
         du -sB1 -- \"$real\" 2>/dev/null | awk '{{ print $1 }}'\n\
         if mountpoint -q -- \"$real\" || [ \"$(stat -c %d -- \"$real\")\" != \"$(stat -c %d -- \"${{real%/*}}/\")\" ]; then echo 'it is a mount point'\n\
         elif ! [ -w \"${{real%/*}}/\" ]; then echo 'the folder that it is in cannot be written to'\n\
         elif ! [ -e \"$real/ibdata1\" ]; then echo 'its tablespaces are elsewhere (innodb_data_home_dir)'\n\
         elif ! [ -e \"$real/ib_logfile0\" ] && ! [ -d \"$real/#innodb_redo\" ]; then echo 'its redo log is elsewhere (innodb_log_group_home_dir) or missing'\n\
         else echo\n\
         fi\n\
         if [ -e \"$real/ibdata1\" ] || [ -d \"$real/mysql\" ]; then echo data; fi"
    );
    let output = host.look(&script, datadir)?;
    let mut lines = output.lines();
    let mut next = || lines.next().unwrap_or_default().trim().to_owned();
    let path = PathBuf::from(next());
    let disk = Some(next()).filter(|disk| !disk.is_empty());
    let mut number = || next().parse().unwrap_or(0);
    let (free, used) = (number(), number());
    let mut next = || lines.next().unwrap_or_default().trim().to_owned();
    let fixed = Some(next()).filter(|why| !why.is_empty());
    let holds = next() == "data";
    Ok(Folder {
        path,
        disk,
        free,
        used,
        fixed,
        holds,
    })
}

/// Prints the process of a server whose working directory is the script's own, if there is one.
/// Compares files and not paths, because a container has paths of its own.
const SERVER_HERE: &str = r#"for cwd in /proc/[0-9]*/cwd; do
[ "$cwd/" -ef . ] || continue
pid=${cwd#/proc/}; pid=${pid%/cwd}; read -r name 2>/dev/null <"/proc/$pid/comm" || continue
case $name in
mariadbd*|mysqld*) ;;
ld-linux*) tr '\000' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qE '^/.*/(mariadbd|mysqld)$' || continue;;
*) continue;;
esac
echo "$pid"; break
done; :"#;

/// The part of a script that fails if a server's working directory is the script's own.
pub(crate) fn refuse_server_here() -> String {
    format!(
        "server=$({SERVER_HERE})\n\
         [ -z \"$server\" ] || {{ echo \"$server\" >&2; exit {SERVER_RUNS}; }}"
    )
}

/// The process of a server with its data there, whoever started it: a server works in its data
/// directory. `None`: there is none, or it belongs to an account whose processes are not visible.
/// The server may also have been started by an explicit dynamic loader.
///
/// # Errors
/// [`HostError`]: the machine cannot be reached, or says why not.
pub fn server_in(host: &Host, datadir: &Path) -> Result<Option<u32>, HostError> {
    let script = format!(
        "cd -- {} 2>/dev/null || exit 0\n{SERVER_HERE}",
        word(datadir)
    );
    Ok(host.look(&script, datadir)?.trim().parse().ok())
}

/// The name under which a data directory is set aside.
pub fn aside_of(datadir: &Path, run_id: &str) -> PathBuf {
    let mut name = datadir.as_os_str().to_owned();
    name.push(format!(".refloat-{run_id}"));
    name.into()
}

/// Sets a data directory aside and creates an empty one in its place, for the same account and with
/// the same certificates. If this run has already set data aside, that data stays: what is in its
/// place now is not a complete copy of anything yet.
///
/// The account gets the new directory last: if it owned the directory earlier, it could use a link
/// to make root write to a file elsewhere. A certificate that is a link stays one, for the same
/// reason.
///
/// # Errors
/// [`HostError`]: the machine cannot be reached, or says why not.
pub fn set_aside(host: &Host, folder: &Path, aside: &Path) -> Result<(), HostError> {
    let script = format!(
        "real={real}; aside={aside}; new=\"$real.refloat-new\"\n\
         [ -e \"$aside\" ] || mv -T -- \"$real\" \"$aside\"\n\
         [ ! -e \"$real\" ] || exit 0\n\
         rm -rf -- \"$new\"; mkdir -m 700 -- \"$new\"\n\
         for file in \"$aside\"/*.pem; do [ ! -f \"$file\" ] || cp -pP -- \"$file\" \"$new/\"; done\n\
         chcon --reference=\"$aside\" -- \"$new\" 2>/dev/null || :\n\
         chown --reference=\"$aside\" -- \"$new\"; chmod --reference=\"$aside\" -- \"$new\"\n\
         for file in \"$new\"/*.pem \"$new\"; do [ ! -e \"$file\" ] || sync -- \"$file\"; done\n\
         mv -T -- \"$new\" \"$real\"; sync -- \"${{real%/*}}/\"",
        real = word(folder),
        aside = word(aside)
    );
    host.change(&script, folder, folder.parent().unwrap_or(folder))
        .map(drop)
}

/// Removes what a failed copy left in a data directory whose old data is set aside, and returns
/// whether anything was removed. A server looks for its position there before it starts, and does
/// not start with half a copy.
///
/// Certificates and error logs stay, and so does what a person may have put there for a server:
/// empty folders, and files that equal those in the old data. Nothing is touched if no copy has
/// begun, if the old data is missing, or if a server runs.
///
/// # Errors
/// [`HostError`]: the machine cannot be reached, or says why not.
pub fn remove_half_copy(host: &Host, folder: &Path, aside: &Path) -> Result<bool, HostError> {
    let script = format!(
        "real={real}; aside={aside}\n\
         [ -e \"$aside/ibdata1\" ] && [ ! \"$aside\" -ef \"$real\" ] || exit 0\n\
         cd -- \"$real\"\n\
         [ -e ibdata1 ] || [ -d mysql ] || [ -d .sst ] || [ -e sst_in_progress ] || exit 0\n\
         {no_server}\n\
         for one in * .[!.]* ..?*; do\n\
         [ -e \"$one\" ] || [ -L \"$one\" ] || continue\n\
         case $one in\n\
         *.pem|*.err|error.log|mysqld.log|mariadbd.log|mariadb.log|lost+found) continue;;\n\
         ib*|undo*|aria*|'#'*|*.dat|xtrabackup*|mariadb_backup*|.sst|sst_in_progress) ;;\n\
         *) if [ -d \"$one\" ] && [ ! -L \"$one\" ]; then [ -n \"$(ls -A -- \"$one\")\" ] || continue\n\
         elif [ -f \"$aside/$one\" ] && cmp -s -- \"$one\" \"$aside/$one\"; then continue; fi;;\n\
         esac\n\
         rm -rf -- \"$one\"; echo yes\n\
         done",
        real = word(folder),
        aside = word(aside),
        no_server = refuse_server_here()
    );
    let output = host.change(&script, folder, folder.parent().unwrap_or(folder))?;
    Ok(!output.trim().is_empty())
}

/// Prints the process of a script that receives a copy into the script's working directory. In the
/// last part of a copy, while files are prepared and moved into place, the file with its process
/// number is gone. A shell that runs a script text does not match: it has no separate argument
/// `joiner`.
const JOINER_HERE: &str = r#"for file in $(grep -la wsrep_sst_ /proc/[0-9]*/cmdline 2>/dev/null); do
words=$(tr '\000' '\n' 2>/dev/null <"$file") || continue
printf '%s\n' "$words" | grep -qx joiner || continue
dir=$(printf '%s\n' "$words" | grep -A 1 -x -e '--datadir' | tail -n 1)
pid=${file#/proc/}; pid=${pid%/cmdline}
[ "$dir" -ef . ] || [ "/proc/$pid/cwd/" -ef . ] || continue
echo "$pid"; break
done; :"#;

/// The process of the script that receives a full copy into this folder. `None`: no copy is in
/// progress.
///
/// # Errors
/// [`HostError`]: the machine cannot be reached, or says why not.
pub fn copy_comes(host: &Host, datadir: &Path) -> Result<Option<u32>, HostError> {
    // The number that a killed script left behind may belong to another process by now.
    let script = format!(
        "cd -- {} 2>/dev/null || exit 0\n\
         for file in wsrep_sst.pid rsync_sst.pid; do\n\
         pid=$(cat -- \"$file\" 2>/dev/null) || continue\n\
         case $pid in ''|*[!0-9]*) continue;; esac\n\
         tr '\\0' ' ' 2>/dev/null <\"/proc/$pid/cmdline\" | grep -qE 'wsrep_sst.*joiner|rsync.*--daemon' || continue\n\
         echo \"$pid\"; exit 0\n\
         done\n{JOINER_HERE}",
        word(datadir)
    );
    let output = host.run(&script)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fixtures::something_like_a_server;

    #[test]
    fn a_script_that_receives_a_copy_is_found_without_its_file() {
        let (here, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut script = std::process::Command::new("sh")
            .stdin(std::process::Stdio::piped())
            .args([
                "-c",
                "read -r line; :",
                "/x/wsrep_sst_mariabackup",
                "--role",
            ])
            .args(["joiner", "--datadir"])
            .arg(here.path())
            .spawn()
            .unwrap();
        let comes = |folder: &Path| copy_comes(&Host::Local, folder).unwrap();
        let found = (comes(here.path()), comes(other.path()));
        script.kill().unwrap();
        script.wait().unwrap();
        assert_eq!(found, (Some(script.id()), None));
        assert_eq!(comes(here.path()), None);
    }

    #[test]
    fn half_a_copy_goes_where_the_old_data_are_set_aside() {
        let above = tempfile::tempdir().unwrap();
        let (data, aside) = (above.path().join("it's data"), above.path().join("aside"));
        fs::create_dir(&data).unwrap();
        for name in ["ibdata1", "grastate.dat", "server-key.pem", "node.err"] {
            fs::write(data.join(name), "").unwrap();
        }
        for name in [".sst", "binlog", "mysql"] {
            fs::create_dir(data.join(name)).unwrap();
        }
        fs::write(data.join("mysql/user.frm"), "").unwrap();
        let remove = || remove_half_copy(&Host::Local, &data, &aside).unwrap();
        assert!(!remove() && data.join("ibdata1").exists());
        std::os::unix::fs::symlink(&data, &aside).unwrap();
        assert!(!remove() && data.join("ibdata1").exists());
        fs::remove_file(&aside).unwrap();
        fs::create_dir(&aside).unwrap();
        fs::write(aside.join("ibdata1"), "").unwrap();
        // What a person may have put there for the server.
        for folder in [&data, &aside] {
            fs::write(folder.join("keys.txt"), "the same").unwrap();
        }
        let mut server = something_like_a_server(&data);
        let error = remove_half_copy(&Host::Local, &data, &aside).unwrap_err();
        assert!(matches!(error, HostError::ServerRuns { .. }), "{error}");
        assert!(data.join("ibdata1").exists());
        drop(server.stdin.take());
        server.wait().unwrap();
        assert!(remove() && !remove());
        let mut left: Vec<_> = fs::read_dir(&data)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["binlog", "keys.txt", "node.err", "server-key.pem"]);
        assert!(aside.join("ibdata1").exists());
    }

    #[test]
    fn a_server_is_known_by_where_it_works() {
        let above = tempfile::tempdir().unwrap();
        let data = above.path().join("it's data");
        fs::create_dir(&data).unwrap();
        let program = above.path().join("mariadbd");
        fs::copy("/bin/sleep", &program).unwrap();
        let start = |program: &Path| {
            let mut command = std::process::Command::new(program);
            command.arg("60").current_dir(&data).spawn().unwrap()
        };
        let mut other = start(Path::new("/bin/sleep"));
        assert_eq!(server_in(&Host::Local, &data).unwrap(), None);
        let mut server = start(&program);
        assert_eq!(server_in(&Host::Local, &data).unwrap(), Some(server.id()));
        assert_eq!(server_in(&Host::Local, above.path()).unwrap(), None);
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!(server_in(&Host::Local, &data).unwrap(), None);
        // The loader's process has its own name.
        let loader = ["/lib64", "/lib"]
            .iter()
            .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
            .map(|entry| entry.path())
            .find(|path| {
                path.file_name()
                    .unwrap()
                    .to_string_lossy()
                    .starts_with("ld-linux")
            })
            .unwrap();
        let by_loader = |program: &Path| {
            let mut command = std::process::Command::new(&loader);
            command.arg(program).arg("60").current_dir(&data);
            command.spawn().unwrap()
        };
        let mut another = by_loader(Path::new("/bin/sleep"));
        let mut server = by_loader(&program);
        let mut found = None;
        for _ in 0..500 {
            found = server_in(&Host::Local, &data).unwrap();
            if found.is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(found, Some(server.id()));
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!(server_in(&Host::Local, &data).unwrap(), None);
        for child in [&mut another, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(
            server_in(&Host::Local, Path::new("/no/such")).unwrap(),
            None
        );
    }

    #[test]
    fn data_are_set_aside_once() {
        let above = tempfile::tempdir().unwrap();
        let data = above.path().join("it's data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("ibdata1"), "old").unwrap();
        fs::write(data.join("ca.pem"), "key").unwrap();
        let secret = above.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        std::os::unix::fs::symlink(&secret, data.join("key.pem")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o750);
        fs::set_permissions(&data, mode).unwrap();
        let apart = look_at(&Host::Local, &data).unwrap().fixed.unwrap();
        assert!(apart.contains("innodb_log_group_home_dir"), "{apart}");
        fs::write(data.join("ib_logfile0"), "log").unwrap();
        let seen = look_at(&Host::Local, &data).unwrap();
        assert!(
            seen.free > 0 && seen.used > 0 && seen.fixed.is_none() && seen.holds,
            "{seen:?}"
        );
        let aside = aside_of(&data, "r1");
        set_aside(&Host::Local, &data, &aside).unwrap();
        assert!(data.join("ca.pem").exists() && !data.join("ibdata1").exists());
        assert_eq!(fs::read_link(data.join("key.pem")).unwrap(), secret);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions();
        assert_eq!(mode(&data), mode(&aside));
        assert!(!look_at(&Host::Local, &data).unwrap().holds);
        assert_eq!(fs::read_to_string(aside.join("ibdata1")).unwrap(), "old");
        // Half a copy has arrived before the second call.
        fs::write(data.join("ibdata1"), "half").unwrap();
        set_aside(&Host::Local, &data, &aside).unwrap();
        assert_eq!(fs::read_to_string(aside.join("ibdata1")).unwrap(), "old");
        // It was interrupted in between.
        fs::remove_dir_all(&data).unwrap();
        set_aside(&Host::Local, &data, &aside).unwrap();
        assert!(data.join("ca.pem").exists());
    }
}
