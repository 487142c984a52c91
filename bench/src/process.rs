//! CPU time and memory of processes, as reported by the operating system.

use std::fs;

use windlass_api::BoxError;

/// Returns the memory in use, in bytes.
pub fn rss() -> Result<u64, BoxError> {
    status("VmRSS:")
}

/// Returns the memory that another process uses, in bytes.
pub fn rss_of(process: u32) -> Result<u64, BoxError> {
    field_of(&process.to_string(), "VmRSS:")
}

/// Returns the memory that another process uses, in bytes. Pages that it shares with other processes count in part.
pub fn pss_of(process: u32) -> Result<u64, BoxError> {
    kilobytes(&fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?, "Pss:")
}

/// Returns the peak memory usage, in bytes.
pub fn peak_rss() -> Result<u64, BoxError> {
    status("VmHWM:")
}

/// Returns the peak memory usage of another process, in bytes.
pub fn peak_rss_of(process: u32) -> Result<u64, BoxError> {
    field_of(&process.to_string(), "VmHWM:")
}

/// Returns the CPU time of another process in seconds, including its ended threads.
pub fn cpu_seconds_of(process: u32) -> Result<f64, BoxError> {
    ticks(&fs::read_to_string(format!("/proc/{process}/stat"))?)
        .map(|ticks| ticks / TICKS_PER_SECOND)
        .ok_or_else(|| format!("no processor time of process {process}").into())
}

/// The unit of `/proc` on Linux, independent of the kernel's internal tick rate.
const TICKS_PER_SECOND: f64 = 100.0;

/// Returns user and system time. The second field is the program's name in parentheses and can contain any character.
fn ticks(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some(next()? + next()?)
}

/// Returns the load average of the last minute.
pub fn load_average() -> Result<f64, BoxError> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}

/// Returns the CPU time of the existing threads in seconds. Threads of a runtime exist as long as the runtime.
pub fn cpu_seconds() -> Result<f64, BoxError> {
    let mut nanoseconds = 0_u64;
    for task in fs::read_dir("/proc/self/task")? {
        // The thread may have ended in the meantime.
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
    kilobytes(&fs::read_to_string(format!("/proc/{process}/status"))?, field)
}

/// Returns the bytes of a field that is in kilobytes.
fn kilobytes(status: &str, field: &str) -> Result<u64, BoxError> {
    let line = status.lines().find_map(|line| line.strip_prefix(field)).ok_or_else(|| format!("no {field}"))?;
    let kilobytes = line.split_whitespace().next().unwrap_or_default().parse::<u64>()?;
    Ok(kilobytes * 1024)
}

/// Returns the allocator's free memory to the system, like a garbage collection in the Go program.
#[allow(unsafe_code, reason = "the standard allocator has no safe way to ask for this")]
pub fn trim_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes no pointer, and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Configures the allocator to use one heap for all threads, and to return large blocks and the end of the heap when
/// they are freed. By default, each thread has a heap. [`trim_allocator`] does not reach the ends of these heaps, and
/// objects that other threads replace leave holes in them. Programs can set `MALLOC_ARENA_MAX=1` instead.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_time_is_parsed_after_any_name() {
        let stat = "17 (a) S 9 (b) R 1 2 3 4 5 6 7 8 9 10 150 30 0 0 20 0";
        assert_eq!(ticks(stat), Some(180.0));
        assert_eq!(ticks("17 (a) R 1 2"), None);
    }

    #[test]
    fn process_time_is_positive() {
        let own = std::process::id();
        assert!(peak_rss_of(own).unwrap() >= 1 << 20 && pss_of(own).unwrap() >= 1 << 20);
        assert!(cpu_seconds_of(own).unwrap() >= 0.0 && load_average().unwrap() >= 0.0);
    }
}
