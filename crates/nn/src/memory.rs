//! Memory that this process may still take: of the machine, of its control groups (containers and
//! batch systems), and of its address space (`ulimit -v`). Linux reports all three.

use std::fmt;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// What limits the memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedBy {
    /// The memory of the machine that no process uses.
    Machine,
    /// The limit of a container or a batch system.
    ControlGroup,
    /// The limit of the address space, `ulimit -v`.
    AddressSpace,
}

impl fmt::Display for LimitedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine => "the machine",
            Self::ControlGroup => "the control group",
            Self::AddressSpace => "ulimit -v",
        })
    }
}

/// Bytes that a process may still take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FreeMemory {
    /// Bytes.
    pub bytes: f64,
    /// All bytes of the limit, free or not.
    pub limit: f64,
    /// What limits the memory.
    pub by: LimitedBy,
}

impl FreeMemory {
    /// The tightest limit now; `None` where the system does not report its memory.
    ///
    /// ```
    /// use graph_transformer_nn::FreeMemory;
    ///
    /// if let Some(free) = FreeMemory::now() {
    ///     assert!(free.bytes <= free.limit, "limited by {}", free.by);
    /// }
    /// ```
    pub fn now() -> Option<Self> {
        let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
        let of_groups = group_files(&groups).into_iter().filter_map(|files| files.read());
        let all = [
            of_machine(&read_to_string("/proc/meminfo").ok()?),
            of_address_space(
                &read_to_string("/proc/self/limits").unwrap_or_default(),
                &read_to_string("/proc/self/status").unwrap_or_default(),
            ),
        ];
        all.into_iter().flatten().chain(of_groups).min_by(|a, b| a.bytes.total_cmp(&b.bytes))
    }
}

/// A number of bytes in gigabytes, for messages.
///
/// ```
/// use graph_transformer_nn::gigabytes;
///
/// assert_eq!((gigabytes(2.5e9), gigabytes(24e9)), ("2.5 GB".to_owned(), "24 GB".to_owned()));
/// ```
pub fn gigabytes(bytes: f64) -> String {
    let digits = match bytes {
        ..1e8 => 3,
        ..1e9 => 2,
        ..1e10 => 1,
        _ => 0,
    };
    format!("{:.digits$} GB", bytes.max(0.0) / 1e9)
}

/// Bytes in a line `NAME: NUMBER kB`.
fn kilobytes(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

fn of_machine(meminfo: &str) -> Option<FreeMemory> {
    let limit = kilobytes(meminfo, "MemTotal")?;
    Some(FreeMemory { bytes: kilobytes(meminfo, "MemAvailable")?, limit, by: LimitedBy::Machine })
}

fn of_address_space(limits: &str, status: &str) -> Option<FreeMemory> {
    /// Address space that the allocator reserves for a thread.
    const PER_THREAD: f64 = 64.0 * 1024.0 * 1024.0;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    // The soft limit; a process without a limit has the word `unlimited`.
    let limit = line.split_whitespace().next()?.parse::<f64>().ok()?;
    // A pass starts a thread or two, and every thread may reserve memory that it never touches.
    let threads = rayon::current_num_threads().min(4) as f64 + 1.0;
    let bytes = limit - kilobytes(status, "VmSize")? - threads * PER_THREAD;
    Some(FreeMemory { bytes: bytes.max(0.0), limit, by: LimitedBy::AddressSpace })
}

/// The files of a control group that say how much memory it may have and has.
#[derive(Debug, PartialEq)]
struct GroupFiles {
    limit: PathBuf,
    used: PathBuf,
    statistics: PathBuf,
}

impl GroupFiles {
    fn read(&self) -> Option<FreeMemory> {
        let used = read_to_string(&self.used).unwrap_or_default();
        let statistics = read_to_string(&self.statistics).unwrap_or_default();
        of_group(&read_to_string(&self.limit).ok()?, &used, &statistics)
    }
}

/// The free memory of a control group. A limit that is no number is none; version 1 reports a
/// number beyond every machine.
fn of_group(limit: &str, used: &str, statistics: &str) -> Option<FreeMemory> {
    let limit = limit.trim().parse::<f64>().ok().filter(|&limit| limit < 1e18)?;
    let entry = |names: [&str; 2]| {
        let value = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            names.contains(&name).then(|| value.trim().parse::<f64>().ok())?
        };
        statistics.lines().find_map(value).unwrap_or(0.0)
    };
    // The system drops cached files when memory runs short, but not files that live in memory.
    let cached = entry(["file", "total_cache"]) - entry(["shmem", "total_shmem"]);
    let used = used.trim().parse::<f64>().unwrap_or(0.0) - cached.max(0.0);
    Some(FreeMemory { bytes: (limit - used.max(0.0)).max(0.0), limit, by: LimitedBy::ControlGroup })
}

/// Files of control groups and of all groups around them. A group is a line
/// `NUMBER:CONTROLLERS:PATH`, in version 2 without controllers.
fn group_files(groups: &str) -> Vec<GroupFiles> {
    let files = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (root, [limit, used]) = match controllers {
            "" => ("/sys/fs/cgroup", ["memory.max", "memory.current"]),
            list if list.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", ["memory.limit_in_bytes", "memory.usage_in_bytes"])
            }
            _ => return None,
        };
        // A container may see its own group as the root, but get the path outside.
        let around = Path::new(path.trim_start_matches('/')).ancestors();
        let in_group = |group: &Path| {
            let folder = Path::new(root).join(group);
            GroupFiles { limit: folder.join(limit), used: folder.join(used), statistics: folder.join("memory.stat") }
        };
        Some(around.map(in_group).collect::<Vec<_>>())
    };
    groups.lines().filter_map(files).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_counts_what_no_process_uses() {
        let text = "MemTotal:       16000000 kB\nMemFree:        1000000 kB\nMemAvailable:   9000000 kB\n";
        let free = of_machine(text).unwrap();
        assert_eq!((free.bytes, free.limit), (9_216_000_000.0, 16_384_000_000.0));
        assert_eq!(of_machine("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn a_group_counts_what_it_may_still_take() {
        let free = |limit: &str, used: &str, statistics: &str| of_group(limit, used, statistics).map(|free| free.bytes);
        assert_eq!(free("max\n", "5\n", ""), None);
        // The number that version 1 reports where there is no limit.
        assert_eq!(free("9223372036854771712\n", "5\n", ""), None);
        assert_eq!(free("2147483648\n", "1000\n", ""), Some(2_147_482_648.0));
        // Cached files make room, except those that live in memory.
        assert_eq!(free("3000\n", "2000\n", "anon 900\nfile 1100\nshmem 100\n"), Some(2000.0));
        assert_eq!(free("3000\n", "2000\n", "cache 5\ntotal_cache 1100\ntotal_shmem 100\n"), Some(2000.0));
        assert_eq!(free("3000\n", "4000\n", ""), Some(0.0));
    }

    #[test]
    fn the_address_space_has_a_limit_or_none() {
        let limits = |soft: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max address space         {soft:20} unlimited            bytes     \n"
            )
        };
        assert_eq!(of_address_space(&limits("unlimited"), "VmSize:\t 1000 kB\n"), None);
        let free = of_address_space(&limits("9000000000"), "VmSize:\t 1000 kB\n").unwrap();
        assert!(free.limit == 9e9 && free.bytes < 9e9 && free.bytes > 8e9, "{free:?}");
        assert_eq!(of_address_space(&limits("1000"), "VmSize:\t 1000 kB\n").unwrap().bytes, 0.0);
    }

    #[test]
    fn limits_are_looked_for_in_the_own_group_and_all_around_it() {
        let files =
            |groups| group_files(groups).iter().map(|files| files.limit.display().to_string()).collect::<Vec<_>>();
        assert_eq!(files("0::/\n"), ["/sys/fs/cgroup/memory.max"]);
        let job = ["/sys/fs/cgroup/job/step/memory.max", "/sys/fs/cgroup/job/memory.max", "/sys/fs/cgroup/memory.max"];
        assert_eq!(files("0::/job/step\n"), job);
        let first = "5:cpu,cpuacct:/job\n4:hugetlb,memory:/job\n1:name=systemd:/job\n";
        let limits =
            ["job/memory.limit_in_bytes", "memory.limit_in_bytes"].map(|f| format!("/sys/fs/cgroup/memory/{f}"));
        assert_eq!(files(first), limits);
        assert_eq!(files("nonsense\n"), [""; 0]);
    }
}
