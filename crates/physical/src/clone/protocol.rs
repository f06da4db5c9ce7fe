//! The packets of the clone protocol, and the descriptors of `InnoDB` in them.
//!
//! Source: `plugin/clone` (`clone.h`, `clone_client.cc`, `clone_server.cc`) and
//! `storage/innobase/clone/clone0desc.cc` of MySQL. Numbers of the plugin are little-endian, those
//! of `InnoDB` big-endian.

/// The command of the SQL protocol that begins it.
pub const COM_CLONE: u8 = 0x20;

/// Begins a copy. The connection that sends it is the master.
pub const INIT: u8 = 1;
/// Adds a connection to a copy.
pub const ATTACH: u8 = 2;
/// Resumes a copy whose connections were lost.
pub const REINIT: u8 = 3;
/// Asks for the files.
pub const EXECUTE: u8 = 4;
/// Says on a second connection that a stage has arrived, or that the copy has failed here.
pub const ACK: u8 = 5;
/// Ends the copy.
pub const EXIT: u8 = 6;

/// The protocol version in use: the donor sends its settings as well.
const VERSION: u32 = 0x0102;
/// Number of `InnoDB` among the storage engines.
const INNODB: u8 = 12;
/// The version of its descriptors.
const DESCRIPTORS: u32 = 100;
/// How long the donor waits for a lock, in seconds. Older donors block DDL as well.
const LOCK_SECONDS: u32 = 300;
/// Lets definitions change during the copy.
const NO_BACKUP_LOCK: u32 = 1 << 31;

/// Bytes of a locator without the chunks that have arrived.
const LOCATOR: usize = 34;
const LOCATOR_LENGTH_AT: usize = 4;
const LOCATOR_STAGE_AT: usize = 32;
/// Where the flags of a descriptor of a stage are.
const STAGE_FLAGS_AT: usize = 44;
const STAGE_BEGINS: u8 = 1;
const STAGE_ACK: u8 = 2;

/// The current stage of the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The donor prepares to send.
    Init = 1,
    /// Files arrive as they are on the donor's disk, while the donor changes them.
    Files,
    /// Pages arrive that were changed since the copy began.
    Pages,
    /// The redo log arrives, from the beginning of the previous stage on.
    Redo,
    /// Everything has arrived.
    Done,
}

impl Stage {
    fn of(number: u32) -> Result<Self, String> {
        match number {
            1 => Ok(Self::Init),
            2 => Ok(Self::Files),
            3 => Ok(Self::Pages),
            4 => Ok(Self::Redo),
            5 => Ok(Self::Done),
            _ => Err(format!("there is no stage {number}")),
        }
    }
}

/// What the donor sends.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<'p> {
    /// Names the copy: its locator.
    Locator(&'p [u8]),
    /// Announces what follows.
    Descriptor(Descriptor),
    /// Bytes of a file, right after their descriptor.
    Data(&'p [u8]),
    /// Minutes for which the donor waits when connections are lost.
    Patience(u64),
    /// It has done what was requested.
    Complete,
    /// It has failed.
    Failed {
        /// Number of the server's error.
        code: u32,
        /// Text of the server's error.
        message: String,
    },
    /// A plugin, a collation or a setting of the donor, which matter to servers only.
    Fact,
}

/// How `InnoDB` describes what it sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Descriptor {
    /// The number of this connection's task.
    Task,
    Stage(StageInfo),
    File(FileInfo),
    Data(DataInfo),
}

/// A stage begins, or ends as far as this connection is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageInfo {
    pub stage: Stage,
    pub begins: bool,
    /// Whether it is only a heartbeat.
    pub is_ping: bool,
    /// Parts into which the stage is cut.
    pub chunks: u32,
    /// Number of files that are announced when it begins.
    pub files: u32,
    /// Bytes that will arrive, approximately.
    pub bytes: u64,
    /// The same, as an acknowledgement.
    pub acknowledgement: Vec<u8>,
}

/// A file of the donor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// The stage in which it is announced; the next one, if a definition has changed.
    pub stage: Stage,
    pub index: u32,
    /// Its path on the donor; empty: a file of the redo log.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Number of the tablespace.
    pub space: u32,
    /// Flags of the tablespace.
    pub flags: u32,
    pub is_encrypted: bool,
    pub is_renamed: bool,
    pub is_removed: bool,
}

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataInfo {
    pub stage: Stage,
    /// The chunk that they belong to, from 1 on.
    pub chunk: u32,
    /// Their number within the chunk, from 1 on.
    pub block: u32,
    pub file: u32,
    pub length: u32,
    pub begins: u64,
    /// Size of the file, which may have grown.
    pub size: u64,
}

/// Fields of a packet, with every length checked.
struct Fields<'p>(&'p [u8]);

impl<'p> Fields<'p> {
    fn bytes(&mut self, count: usize) -> Result<&'p [u8], String> {
        let (head, rest) = self
            .0
            .split_at_checked(count)
            .ok_or("a packet is too short")?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (head, rest) = self.0.split_first_chunk().ok_or("a packet is too short")?;
        self.0 = rest;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    fn little(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u16(&mut self) -> Result<u16, String> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_be_bytes)
    }

    fn text(&mut self) -> Result<String, String> {
        let count = self.little()? as usize;
        Ok(String::from_utf8_lossy(self.bytes(count)?).into_owned())
    }
}

impl<'p> Answer<'p> {
    /// Reads what the donor has sent.
    ///
    /// # Errors
    /// What is wrong with it, as words.
    pub fn parse(payload: &'p [u8]) -> Result<Self, String> {
        let mut fields = Fields(payload);
        Ok(match fields.byte()? {
            1 => {
                fields.little()?;
                let engine = fields.byte()?;
                let count = fields.little()? as usize;
                let locator = fields.bytes(count)?;
                if engine != INNODB || !fields.0.is_empty() {
                    return Err("it copies other storage engines than InnoDB".to_owned());
                }
                if locator.len() < LOCATOR {
                    return Err("a locator is too short".to_owned());
                }
                Self::Locator(&locator[..LOCATOR])
            }
            2 => {
                let (engine, locator) = (fields.byte()?, fields.byte()?);
                if (engine, locator) != (INNODB, 0) {
                    return Err(format!("storage engine {engine} sends files"));
                }
                Self::Descriptor(Descriptor::parse(fields.0)?)
            }
            3 => Self::Data(fields.0),
            8 if fields.text()? == "clone_donor_timeout_after_network_failure" => {
                let minutes = fields.text()?;
                Self::Patience(minutes.parse().unwrap_or(0))
            }
            4..=9 => Self::Fact,
            99 => Self::Complete,
            100 => Self::Failed {
                code: fields.little()?,
                message: String::from_utf8_lossy(fields.0)
                    .trim_end_matches('\0')
                    .to_owned(),
            },
            other => return Err(format!("there is no answer {other}")),
        })
    }
}

impl Descriptor {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut fields = Fields(bytes);
        let version = fields.u32()?;
        if version != DESCRIPTORS {
            return Err(format!("its descriptors have version {version}"));
        }
        let length = fields.u32()? as usize;
        let kind = fields.u32()?;
        let bytes = bytes.get(..length).ok_or("a descriptor is too short")?;
        fields.0 = bytes.get(12..).ok_or("a descriptor is too short")?;
        match kind {
            2 => Ok(Self::Task),
            3 => Self::stage(fields, bytes),
            4 => Self::file(fields),
            5 => Self::data(fields),
            other => Err(format!("there is no descriptor {other}")),
        }
    }

    fn stage(mut fields: Fields<'_>, bytes: &[u8]) -> Result<Self, String> {
        let stage = Stage::of(fields.u32()?)?;
        fields.bytes(4)?; // The task.
        let (chunks, files) = (fields.u32()?, fields.u32()?);
        let estimate = fields.u64()?;
        fields.bytes(8)?; // Bytes on the donor's disk.
        let [_, flags] = fields.array()?;
        let mut acknowledgement = bytes.to_vec();
        acknowledgement[STAGE_FLAGS_AT + 1] |= STAGE_ACK;
        Ok(Self::Stage(StageInfo {
            stage,
            begins: flags & STAGE_BEGINS != 0,
            is_ping: flags & STAGE_ACK != 0,
            chunks,
            files,
            bytes: estimate,
            acknowledgement,
        }))
    }

    fn file(mut fields: Fields<'_>) -> Result<Self, String> {
        let stage = Stage::of(fields.u32()?)?;
        let size = fields.u64()?;
        fields.bytes(8)?; // Bytes on the donor's disk.
        let flags = fields.u32()?;
        fields.bytes(4)?; // Size of a block of the donor's file system.
        let marks = fields.u16()?;
        let (space, index) = (fields.u32()?, fields.u32()?);
        fields.bytes(8)?; // First and last chunk.
        let count = fields.u32()? as usize;
        let name = fields.bytes(count)?;
        let name = name.strip_suffix(&[0]).unwrap_or(name);
        let name = std::str::from_utf8(name).map_err(|_| "a file's name is not text")?;
        Ok(Self::File(FileInfo {
            stage,
            index,
            name: name.to_owned(),
            size,
            space,
            flags,
            is_encrypted: marks & 0b10_0100 != 0,
            is_renamed: marks & 0b1000 != 0,
            is_removed: marks & 0b1_0000 != 0,
        }))
    }

    fn data(mut fields: Fields<'_>) -> Result<Self, String> {
        let stage = Stage::of(fields.u32()?)?;
        fields.bytes(4)?; // The task.
        Ok(Self::Data(DataInfo {
            stage,
            chunk: fields.u32()?,
            block: fields.u32()?,
            file: fields.u32()?,
            length: fields.u32()?,
            begins: fields.u64()?,
            size: fields.u64()?,
        }))
    }
}

/// A locator that names no copy: what [`INIT`] sends.
pub fn no_copy() -> Vec<u8> {
    let mut locator = vec![0; LOCATOR];
    locator[..4].copy_from_slice(&DESCRIPTORS.to_be_bytes());
    locator[LOCATOR_LENGTH_AT..8].copy_from_slice(&(LOCATOR as u32).to_be_bytes());
    locator[11] = 1;
    locator
}

/// What has arrived of a stage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// A bit for each chunk of which at least a part has arrived.
    pub chunks: Vec<u32>,
    /// Of these, the incomplete ones, with the last block that has arrived.
    pub incomplete: std::collections::BTreeMap<u32, u32>,
}

impl Progress {
    /// An empty record for a stage with this many chunks.
    pub fn of(chunks: u32) -> Self {
        Self {
            chunks: vec![0; chunks.div_ceil(32) as usize],
            incomplete: std::collections::BTreeMap::new(),
        }
    }

    /// Notes that a part of a chunk has arrived. Returns whether there is such a chunk.
    pub fn begin(&mut self, chunk: u32) -> bool {
        let Some(bit) = chunk.checked_sub(1) else {
            return false;
        };
        let word = self.chunks.get_mut((bit / 32) as usize);
        word.is_some_and(|word| {
            *word |= 1 << (bit % 32);
            true
        })
    }
}

/// A locator that says how far this end of the copy has come: what [`REINIT`] sends. `knows_files`:
/// the list of files has arrived.
pub fn resumed(locator: &[u8], stage: Stage, knows_files: bool, progress: &Progress) -> Vec<u8> {
    let mut all = locator.to_vec();
    if stage == Stage::Init {
        return all;
    }
    all[LOCATOR_STAGE_AT] = stage as u8;
    all[LOCATOR_STAGE_AT + 1] = u8::from(knows_files);
    let mut put = |number: u32| all.extend_from_slice(&number.to_be_bytes());
    put(progress.incomplete.len() as u32);
    for (chunk, block) in &progress.incomplete {
        put(*chunk);
        put(*block);
    }
    put(progress.chunks.len() as u32);
    progress.chunks.iter().for_each(|word| put(*word));
    let length = (all.len() as u32).to_be_bytes();
    all[LOCATOR_LENGTH_AT..8].copy_from_slice(&length);
    all
}

/// The body of [`INIT`], [`ATTACH`] and [`REINIT`].
pub fn opening(locator: &[u8]) -> Vec<u8> {
    let mut body = VERSION.to_le_bytes().to_vec();
    body.extend_from_slice(&(LOCK_SECONDS | NO_BACKUP_LOCK).to_le_bytes());
    put_locator(&mut body, locator);
    body
}

/// The body of [`ACK`]: a stage has arrived (its acknowledgement), or the copy has failed here with
/// an error of this number.
pub fn acknowledging(locator: &[u8], error: u32, acknowledgement: &[u8]) -> Vec<u8> {
    let mut body = error.to_le_bytes().to_vec();
    put_locator(&mut body, locator);
    body.extend_from_slice(&(acknowledgement.len() as u32).to_le_bytes());
    body.extend_from_slice(acknowledgement);
    body
}

fn put_locator(body: &mut Vec<u8>, locator: &[u8]) {
    body.push(INNODB);
    body.extend_from_slice(&(locator.len() as u32).to_le_bytes());
    body.extend_from_slice(locator);
}

#[cfg(test)]
mod tests;
