//! A file that is rotated by size. The names of rotated files, their number and their age follow lumberjack, the library of
//! kube-apiserver, because log collectors and retention scripts depend on them.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
};

use flate2::{Compression, write::GzEncoder};
use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};
use windlass_api::Clock;

use super::options::AuditLogOptions;

const MEGABYTE: u64 = 1024 * 1024;
const COMPRESSED: &str = ".gz";
/// The time in the name of a rotated file, in UTC: `audit-2006-01-02T15-04-05.000.log`.
const TIME: &str = "%Y-%m-%dT%H-%M-%S%.3f";

/// A file that is rotated before it exceeds its maximum size.
#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    /// `None` disables rotation.
    max_bytes: Option<u64>,
    retention: Arc<Retention>,
    clock: Clock,
    file: Option<File>,
    size: u64,
    /// Wakes the thread that removes and compresses rotated files.
    rotated: Option<mpsc::SyncSender<Timestamp>>,
}

/// The rules for rotated files.
#[derive(Debug)]
struct Retention {
    path: PathBuf,
    /// 0 means no limit.
    max_backups: usize,
    max_age: Option<SignedDuration>,
    compress: bool,
}

impl RotatingFile {
    /// Creates the directory and the file if they are missing.
    pub(super) fn open(options: &AuditLogOptions) -> io::Result<Self> {
        let path = options.path.clone();
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            create_directory(directory)?;
        }
        private(OpenOptions::new().create(true).append(true)).open(&path)?;
        let retention = Retention {
            path: path.clone(),
            max_backups: usize::try_from(options.max_backups).unwrap_or_default(),
            max_age: (options.max_age > 0)
                .then(|| SignedDuration::from_hours(options.max_age.saturating_mul(24).min(1 << 40))),
            compress: options.compress,
        };
        let max_bytes = u64::try_from(options.max_size).ok().filter(|size| *size > 0);
        Ok(Self {
            path,
            max_bytes: max_bytes.map(|size| size.saturating_mul(MEGABYTE)),
            retention: Arc::new(retention),
            clock: Clock::system(),
            file: None,
            size: 0,
            rotated: None,
        })
    }

    pub(super) fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Reports whether a line of this length is appended without opening, renaming or removing a file.
    pub(super) fn only_appends(&self, length: usize) -> bool {
        self.file.is_some() && self.max_bytes.is_none_or(|max| self.size + length as u64 <= max)
    }

    /// Appends a line, after a rotation if the line does not fit.
    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if let Some(max) = self.max_bytes
            && length > max
        {
            return Err(io::Error::other(format!("write length {length} exceeds maximum file size {max}")));
        }
        let is_full = |size: u64| self.max_bytes.is_some_and(|max| size + length > max);
        if self.file.is_none() {
            let size = fs::metadata(&self.path).map_or(0, |metadata| metadata.len());
            if is_full(size) {
                self.rotate()?;
            } else {
                let mut file = private(OpenOptions::new().create(true).append(true)).open(&self.path)?;
                self.size = size;
                // The rest of an incomplete line must not damage this one.
                if size > 0 && has_incomplete_line(&self.path) {
                    file.write_all(b"\n")?;
                    self.size += 1;
                }
                self.file = Some(file);
                self.retire();
            }
        } else if is_full(self.size) {
            self.rotate()?;
        }
        if let Some(file) = &mut self.file {
            // A part of the line may have been written. The next write opens the file again, and ends that line.
            if let Err(error) = file.write_all(line) {
                self.file = None;
                return Err(error);
            }
            self.size += length;
        }
        Ok(())
    }

    /// Renames the file and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        if self.path.exists() {
            fs::rename(&self.path, self.retention.unused_name(self.clock.now())?)?;
        }
        self.file = Some(private(OpenOptions::new().create(true).append(true)).open(&self.path)?);
        self.size = 0;
        self.retire();
        Ok(())
    }

    /// Lets a thread remove and compress rotated files, which can take seconds. Without rotation there are none.
    fn retire(&mut self) {
        if self.max_bytes.is_none() {
            return;
        }
        let retention = &self.retention;
        let rotated = self.rotated.get_or_insert_with(|| {
            let (sender, receiver) = mpsc::sync_channel(1);
            let retention = Arc::clone(retention);
            let thread = thread::Builder::new().name("audit-rotation".to_owned());
            // Without the thread, old files stay.
            let _ = thread.spawn(move || {
                for now in receiver {
                    if let Err(error) = retention.apply(now) {
                        tracing::warn!(%error, "cannot remove or compress rotated audit logs");
                    }
                }
            });
            sender
        });
        // If the thread is busy, the waiting run covers this rotation, too.
        let _ = rotated.try_send(self.clock.now());
    }
}

impl Retention {
    /// Returns the beginning and the end of the names of rotated files.
    fn affixes(&self) -> (String, String) {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let end = name.rfind('.').map(|dot| name[dot..].to_owned()).unwrap_or_default();
        (format!("{}-", &name[..name.len() - end.len()]), end)
    }

    /// Returns a name that no file has: that of the current time, or of the first later millisecond without one.
    fn unused_name(&self, mut now: Timestamp) -> io::Result<PathBuf> {
        loop {
            let name = self.backup_name(now);
            if !name.try_exists()? && !compressed_name(&name).try_exists()? {
                return Ok(name);
            }
            now = now.checked_add(SignedDuration::from_millis(1)).map_err(io::Error::other)?;
        }
    }

    fn backup_name(&self, now: Timestamp) -> PathBuf {
        let (start, end) = self.affixes();
        let time = now.to_zoned(TimeZone::UTC).strftime(TIME);
        self.path.with_file_name(format!("{start}{time}{end}"))
    }

    /// Returns the time in the name of a rotated file.
    fn time(&self, name: &str) -> Option<Timestamp> {
        let (start, end) = self.affixes();
        let time = name.strip_suffix(COMPRESSED).unwrap_or(name).strip_prefix(&start)?.strip_suffix(&end)?;
        let time = DateTime::strptime(TIME, time).ok()?;
        Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
    }

    /// Removes rotated files that are too many or too old, and compresses the others.
    fn apply(&self, now: Timestamp) -> io::Result<()> {
        let directory = self.path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let mut files = Vec::new();
        for entry in fs::read_dir(directory.unwrap_or(Path::new(".")))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            files.extend(self.time(&name).map(|time| (time, entry.path())));
        }
        files.sort();
        files.reverse();
        let mut kept: Vec<Timestamp> = Vec::new();
        for (time, path) in files {
            if !kept.contains(&time) {
                kept.push(time);
            }
            let is_surplus = self.max_backups > 0 && kept.len() > self.max_backups;
            let is_old = self.max_age.is_some_and(|age| now.duration_since(time) > age);
            if is_surplus || is_old {
                fs::remove_file(&path)?;
            } else if self.compress && path.extension().is_none_or(|end| end != "gz") {
                compress(&path)?;
            }
        }
        Ok(())
    }
}

/// Reports whether the last byte of a file is not a newline. A file that cannot be read counts as complete.
fn has_incomplete_line(path: &Path) -> bool {
    let read = || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        Ok::<_, io::Error>(last != *b"\n")
    };
    read().unwrap_or(false)
}

fn compressed_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(COMPRESSED);
    PathBuf::from(name)
}

fn compress(path: &Path) -> io::Result<()> {
    let target = compressed_name(path);
    let written = (|| {
        let mut source = File::open(path)?;
        let file = private(OpenOptions::new().create(true).truncate(true).write(true)).open(&target)?;
        let mut encoder = GzEncoder::new(file, Compression::default());
        io::copy(&mut source, &mut encoder)?;
        encoder.finish()?.flush()
    })();
    if let Err(error) = written {
        // The uncompressed file stays.
        let _ = fs::remove_file(&target);
        return Err(error);
    }
    fs::remove_file(path)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
