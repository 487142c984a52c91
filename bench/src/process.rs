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

/// The most memory that another process ever had in use, in bytes.
pub fn peak_rss_of(process: u32) -> Result<u64, BoxError> {
    field_of(&process.to_string(), "VmHWM:")
}

/// Processor time of another process, with that of its threads that have ended, in seconds.
pub fn cpu_seconds_of(process: u32) -> Result<f64, BoxError> {
    ticks(&fs::read_to_string(format!("/proc/{process}/stat"))?)
        .map(|ticks| ticks / TICKS_PER_SECOND)
        .ok_or_else(|| format!("no processor time of process {process}").into())
}

/// What Linux tells programs on every machine that matters, whatever it counts in itself.
const TICKS_PER_SECOND: f64 = 100.0;

/// In user mode and in the system. The second field is the program's name, in parentheses, and may hold anything.
fn ticks(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some(next()? + next()?)
}

/// How many processes run or wait to run, on average over the last minute.
pub fn load_average() -> Result<f64, BoxError> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_process_is_found_behind_whatever_it_is_called() {
        let stat = "17 (a) S 9 (b) R 1 2 3 4 5 6 7 8 9 10 150 30 0 0 20 0";
        assert_eq!(ticks(stat), Some(180.0));
        assert_eq!(ticks("17 (a) R 1 2"), None);
    }

    #[test]
    fn this_process_has_used_something() {
        let own = std::process::id();
        assert!(peak_rss_of(own).unwrap() >= 1 << 20);
        assert!(cpu_seconds_of(own).unwrap() >= 0.0 && load_average().unwrap() >= 0.0);
    }
}
