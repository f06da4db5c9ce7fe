//! Tracks the disk space that a restore needs. Several nodes may have their data on one disk, and
//! each of them alone would find enough space.

use std::collections::BTreeMap;

use refloat_host::datadir::Folder;

/// The nodes' disks, by the name that their machine reports.
#[derive(Debug, Default)]
pub(super) struct Room<'a>(BTreeMap<&'a str, Disk<'a>>);

#[derive(Debug)]
struct Disk<'a> {
    /// Bytes free on the disk.
    free: u64,
    /// Bytes already reserved.
    taken: u64,
    nodes: Vec<&'a str>,
}

impl<'a> Room<'a> {
    /// Reserves bytes that a node needs in any case.
    pub fn take(&mut self, name: &'a str, folder: &'a Folder, bytes: u64) {
        let Some(disk) = &folder.disk else { return };
        let disk = self.0.entry(disk).or_insert(Disk {
            free: folder.free,
            taken: 0,
            nodes: Vec::new(),
        });
        // Each node was examined at a different moment.
        disk.free = disk.free.min(folder.free);
        disk.taken = disk.taken.saturating_add(bytes);
        disk.nodes.push(name);
    }

    /// Reserves more bytes for a node, unless other nodes need them.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn take_more(&mut self, folder: &Folder, bytes: u64) -> Result<(), String> {
        let disk = folder.disk.as_deref();
        let Some(disk) = disk.and_then(|disk| self.0.get_mut(disk)) else {
            return Ok(());
        };
        let left = disk.free.saturating_sub(disk.taken);
        if disk.nodes.len() > 1 && left < bytes {
            return Err(format!(
                "on the disk of {} {left} bytes are left beside what they take, and old data of {bytes} are to stay",
                disk.nodes.join(", ")
            ));
        }
        disk.taken = disk.taken.saturating_add(bytes);
        Ok(())
    }

    /// The objections for disks without enough space for all of their nodes.
    pub fn lacking(&self) -> impl Iterator<Item = String> {
        let shared = self.0.values().filter(|disk| disk.nodes.len() > 1);
        let lacking = shared.filter(|disk| disk.free < disk.taken);
        lacking.map(|disk| {
            format!(
                "{} have their data on one disk: {} bytes are free there, and together they take about {} more",
                disk.nodes.join(", "),
                disk.free,
                disk.taken
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(disk: Option<&str>) -> Folder {
        Folder {
            path: "/d".into(),
            disk: disk.map(str::to_owned),
            free: 100,
            used: 30,
            fixed: None,
            holds: true,
        }
    }

    #[test]
    fn nodes_on_one_disk_share_what_is_free() {
        let (one, other) = (folder(Some("a")), folder(Some("b")));
        let mut room = Room::default();
        room.take("n1", &one, 40);
        room.take("n2", &other, 90);
        room.take("n3", &one, 40);
        assert_eq!(room.lacking().count(), 0);
        assert_eq!(room.take_more(&one, 15), Ok(()));
        let error = room.take_more(&one, 15).unwrap_err();
        assert!(
            error.starts_with("on the disk of n1, n3 5 bytes are left"),
            "{error}"
        );
        room.take("n4", &one, 6);
        let lacking: Vec<String> = room.lacking().collect();
        assert_eq!(
            lacking,
            [
                "n1, n3, n4 have their data on one disk: 100 bytes are free there, and together they take about 101 more"
            ]
        );
    }

    #[test]
    fn a_disk_that_nobody_knows_is_not_shared() {
        let unknown = folder(None);
        let mut room = Room::default();
        room.take("n1", &unknown, 90);
        room.take("n2", &unknown, 90);
        assert_eq!(room.lacking().count(), 0);
        assert_eq!(room.take_more(&unknown, 90), Ok(()));
    }
}
