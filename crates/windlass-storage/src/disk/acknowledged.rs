//! The file with the revision of the last acknowledged commit.
//!
//! A disk may lose writes that it reported as durable, and a database may drop the end of its journal as if it had
//! never been written. Both look like an older, intact database. This file reveals them: it is written after each
//! batch. At most once a second, the write is flushed, too. So after a power failure the file may be older than the
//! database by the writes of one second.

use std::{
    fs::File,
    io::{self, ErrorKind},
    os::unix::fs::FileExt as _,
    path::Path,
    time::Duration,
};

use tokio::time::Instant;
use windlass_server::storage::Revision;

pub(super) struct Acknowledged {
    file: File,
    /// The slot that is written next. The other one stays intact if the write is torn.
    slot: u64,
    flushed: Instant,
}

/// The content of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The file is new.
    New,
    /// The file is empty or damaged.
    Unknown,
    Revision(Revision),
}

/// The size of a slot: a revision and its checksum.
const SLOT: usize = 12;
const SLOTS: u64 = 2;

/// The maximum time after which a write is flushed.
const FLUSHED: Duration = Duration::from_secs(1);

impl Acknowledged {
    /// Opens or creates the file.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Content)> {
        let mut options = File::options();
        options.read(true).write(true);
        let (file, content) = match options.open(path) {
            Ok(file) => {
                let content = newest(&file).map_or(Content::Unknown, Content::Revision);
                (file, content)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => (options.create_new(true).open(path)?, Content::New),
            Err(error) => return Err(error),
        };
        let slot = (0..SLOTS).min_by_key(|slot| read(&file, *slot)).unwrap_or_default();
        Ok((Self { file, slot, flushed: Instant::now() }, content))
    }

    /// Returns the last revision, if the file can be read. Another process may be writing it.
    pub(super) fn last(path: &Path) -> Option<Revision> {
        let file = File::open(path).ok()?;
        newest(&file)
    }

    /// Writes a revision.
    pub(super) fn write(&mut self, revision: Revision) -> io::Result<()> {
        let mut bytes = [0; SLOT];
        let (number, checksum) = bytes.split_at_mut(8);
        number.copy_from_slice(&revision.0.to_be_bytes());
        checksum.copy_from_slice(&crc32fast::hash(number).to_be_bytes());
        self.file.write_all_at(&bytes, self.slot * SLOT as u64)?;
        self.slot = (self.slot + 1) % SLOTS;
        if self.flushed.elapsed() >= FLUSHED {
            self.flush()?;
        }
        Ok(())
    }

    /// Flushes the writes to disk.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.flushed = Instant::now();
        Ok(())
    }
}

fn newest(file: &File) -> Option<Revision> {
    (0..SLOTS).filter_map(|slot| read(file, slot)).max()
}

/// Returns the revision in a slot; `None` if the slot is empty or damaged.
fn read(file: &File, slot: u64) -> Option<Revision> {
    let mut bytes = [0; SLOT];
    file.read_exact_at(&mut bytes, slot * SLOT as u64).ok()?;
    let (number, checksum) = bytes.split_first_chunk()?;
    (crc32fast::hash(number).to_be_bytes() == checksum).then(|| Revision(u64::from_be_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reopened(path: &Path) -> Content {
        Acknowledged::open(path).unwrap().1
    }

    #[test]
    fn newest_revision_survives_a_torn_write_of_the_next_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("acknowledged");
        let (mut file, content) = Acknowledged::open(&path).unwrap();
        assert_eq!((content, reopened(&path)), (Content::New, Content::Unknown));
        for revision in 1..=5 {
            file.write(Revision(revision)).unwrap();
            assert_eq!(reopened(&path), Content::Revision(Revision(revision)));
        }
        let torn = file.slot * SLOT as u64;
        file.file.write_all_at(&6_u64.to_be_bytes(), torn).unwrap();
        assert_eq!(reopened(&path), Content::Revision(Revision(5)));
        let (mut file, _) = Acknowledged::open(&path).unwrap();
        file.write(Revision(7)).unwrap();
        assert_eq!(reopened(&path), Content::Revision(Revision(7)));
    }

    #[test]
    fn damaged_file_has_no_revision() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("acknowledged");
        std::fs::write(&path, [7; 2 * SLOT]).unwrap();
        assert_eq!(reopened(&path), Content::Unknown);
    }
}
