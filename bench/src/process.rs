//! What a process has used: processor time and memory, as the operating system counts them.

use std::fs;

use windlass_api::BoxError;

/// Memory in use now, in bytes.
pub fn rss() -> Result<u64, BoxError> {
    status("VmRSS:")
}

/// Memory that another process has in use now, in bytes.
pub fn rss_of(process: u32) -> Result<u64, BoxError> {
    field_of(&process.to_string(), "VmRSS:")
}

/// The most memory that was ever in use, in bytes.
pub fn peak_rss() -> Result<u64, BoxError> {
    status("VmHWM:")
}

/// Processor time of the threads that there are, in seconds. Those of a runtime live as long as it does.
pub fn cpu_seconds() -> Result<f64, BoxError> {
    let mut nanoseconds = 0_u64;
    for task in fs::read_dir("/proc/self/task")? {
        // A thread may end while we look.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        nanoseconds += text.split_whitespace().next().unwrap_or("0").parse::<u64>()?;
    }
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    Ok(nanoseconds as f64 / 1e9)
}

fn status(field: &str) -> Result<u64, BoxError> {
    field_of("self", field)
}

fn field_of(process: &str, field: &str) -> Result<u64, BoxError> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).ok_or_else(|| format!("no {field}"))?;
    let kilobytes = line.split_whitespace().next().unwrap_or_default().parse::<u64>()?;
    Ok(kilobytes * 1024)
}

/// Gives back to the system what the allocator holds and nobody uses, as Go's collector does for the peer.
#[allow(unsafe_code, reason = "the standard allocator has no safe way to ask for this")]
pub fn trim_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes no pointer, and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has the allocator keep one heap for all threads, and give back what is large, and the heap's end, when they are freed. By
/// default it has a heap for each thread, whose ends [`trim_allocator`] does not reach, and leaves holes in those where
/// objects were that other threads have replaced. Programs that care set `MALLOC_ARENA_MAX=1`.
#[allow(unsafe_code, reason = "the standard allocator has no safe way to ask for this")]
pub fn keep_little() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes no pointer, and may be called at any time from any thread.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 128 << 10);
    }
}
