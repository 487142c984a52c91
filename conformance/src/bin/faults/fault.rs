//! The faults. Each is caused, held for some time, and healed.

use std::{
    fmt,
    process::{Command, Stdio},
    time::Duration,
};

use tokio::time::sleep;
use windlass_api::Entropy;

use crate::{MEMBERS, Result, SERVERS, cluster::Cluster, network::Host, process::Process};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    MemberKilled,
    LeaderPaused,
    ServerKilled,
    ServerUpgraded,
    Partition,
    SlowDisk,
    Compaction,
}

/// The bounds of the time for which a fault is held, in milliseconds. Servers leave a silent member after 3 s.
const HELD: (u64, u64) = (1_500, 4_000);

/// The bounds of the delay of each sync of a slow disk, in milliseconds.
const DELAY: (u64, u64) = (40, 400);

impl Fault {
    pub(crate) const ALL: [Self; 7] = [
        Self::MemberKilled,
        Self::LeaderPaused,
        Self::ServerKilled,
        Self::ServerUpgraded,
        Self::Partition,
        Self::SlowDisk,
        Self::Compaction,
    ];

    /// Returns the name in the report and in the arguments.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::MemberKilled => "member-killed",
            Self::LeaderPaused => "leader-paused",
            Self::ServerKilled => "server-killed",
            Self::ServerUpgraded => "server-upgraded",
            Self::Partition => "partition",
            Self::SlowDisk => "slow-disk",
            Self::Compaction => "compaction",
        }
    }

    /// Causes the fault, holds it, and heals it. Compactions are in their own module. Returns a description.
    pub(crate) async fn run(self, cluster: &mut Cluster, random: &Entropy) -> Result<String> {
        let held = Duration::from_millis(HELD.0 + random.below(HELD.1 - HELD.0));
        match self {
            Self::MemberKilled => {
                let member = often_leader(cluster, random).await?;
                cluster.members[member.0].kill()?;
                sleep(held).await;
                cluster.members[member.0].restart()?;
                Ok(format!("{member} for {held:?}"))
            }
            Self::LeaderPaused => {
                let leader = cluster.leader().await?;
                cluster.members[leader].pause()?;
                sleep(held).await;
                cluster.members[leader].resume()?;
                Ok(format!("{} for {held:?}", Host::Member(leader)))
            }
            Self::ServerKilled => {
                let server = index_below(SERVERS, random)?;
                cluster.servers[server].kill()?;
                // Half of the time, it is started again at once.
                let away = if random.below(2) == 0 { held } else { Duration::ZERO };
                sleep(away).await;
                cluster.servers[server].restart()?;
                cluster.servers[server].until_line("ready").await?;
                Ok(format!("{} for {away:?}", Host::Server(server)))
            }
            Self::ServerUpgraded => {
                let server = index_below(SERVERS, random)?;
                let version = cluster.change_version(server).await?;
                Ok(format!("{} to {version}", Host::Server(server)))
            }
            Self::Partition => {
                let partition = Partition::choose(cluster, random).await?;
                partition.cause(cluster)?;
                sleep(held).await;
                partition.heal(cluster)?;
                Ok(format!("{partition} for {held:?}"))
            }
            Self::SlowDisk => {
                let member = often_leader(cluster, random).await?;
                let delay = Duration::from_millis(DELAY.0 + random.below(DELAY.1 - DELAY.0));
                let mut slow = slow_disk(&cluster.members[member.0], delay)?;
                sleep(held).await;
                slow.end()?;
                Ok(format!("{member}, {delay:?} for each sync, for {held:?}"))
            }
            Self::Compaction => Err("a compaction is not caused by the cluster".into()),
        }
    }
}

/// A member, and whether it is the leader.
struct Member(usize, bool);

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.1 { "leader" } else { "follower" };
        write!(f, "{} ({role})", Host::Member(self.0))
    }
}

/// Returns the leader half of the time, otherwise a follower.
async fn often_leader(cluster: &Cluster, random: &Entropy) -> Result<Member> {
    let leader = cluster.leader().await?;
    Ok(match random.below(4) {
        0 => Member((leader + 1) % MEMBERS, false),
        1 => Member((leader + 2) % MEMBERS, false),
        _ => Member(leader, true),
    })
}

/// Returns a random index below a bound.
pub(crate) fn index_below(bound: usize, random: &Entropy) -> Result<usize> {
    Ok(usize::try_from(random.below(u64::try_from(bound)?))?)
}

/// A partition of the network: the host that is isolated, or the pairs of hosts whose packets are lost.
#[derive(Debug)]
struct Partition {
    what: String,
    isolated: Option<Host>,
    lost: Vec<(Host, Host)>,
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Partition {
    async fn choose(cluster: &Cluster, random: &Entropy) -> Result<Self> {
        let leader = cluster.leader().await?;
        let follower = Host::Member((leader + 1 + index_below(2, random)?) % MEMBERS);
        let (leader, server) = (Host::Member(leader), Host::Server(index_below(SERVERS, random)?));
        let members: Vec<_> = (0..MEMBERS).map(Host::Member).collect();
        let peers: Vec<_> = members.iter().copied().filter(|peer| *peer != leader).collect();
        // Without a connection, the partition would have no effect.
        let used = cluster.network.connected(server, &members)?;
        let both =
            |one: Host, others: &[Host]| others.iter().flat_map(|other| [(one, *other), (*other, one)]).collect();
        let isolated = |host: Host, what: String| Self { what, isolated: Some(host), lost: Vec::new() };
        let lost = |what: String, lost: Vec<(Host, Host)>| Self { what, isolated: None, lost };
        Ok(match random.below(10) {
            0 => isolated(leader, format!("the leader {leader} alone")),
            1 => isolated(follower, format!("the follower {follower} alone")),
            2 => lost(format!("the leader {leader} without the other members"), both(leader, &peers)),
            3 => lost(
                format!("the leader {leader} unheard by the other members"),
                peers.iter().map(|peer| (leader, *peer)).collect(),
            ),
            4 => isolated(server, format!("the server {server} alone")),
            5 => lost(format!("the server {server} without its member"), both(server, &used)),
            6 => lost(
                format!("the server {server} unheard by its member"),
                used.iter().map(|member| (server, *member)).collect(),
            ),
            7 | 8 => lost(
                // Commits are executed, but their responses are lost.
                format!("the member of the server {server} unheard by it"),
                used.iter().map(|member| (*member, server)).collect(),
            ),
            _ => lost(format!("the server {server} without etcd"), both(server, &members)),
        })
    }

    fn cause(&self, cluster: &Cluster) -> Result {
        self.isolated.map_or(Ok(()), |host| cluster.network.isolate(host))?;
        self.lost.iter().try_for_each(|(from, to)| cluster.network.cut(*from, *to))
    }

    fn heal(&self, cluster: &Cluster) -> Result {
        self.isolated.map_or(Ok(()), |host| cluster.network.rejoin(host))?;
        self.lost.iter().try_for_each(|(from, to)| cluster.network.join(*from, *to))
    }
}

/// A process that delays each sync of a member. The member is healed on drop.
struct SlowDisk(std::process::Child);

/// Delays each sync of a member, with strace. See the documentation of the program for the reason.
fn slow_disk(member: &Process, delay: Duration) -> Result<SlowDisk> {
    let calls = "fdatasync,fsync";
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qqq", "-e", "signal=none", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
    strace.args(["-e", &format!("inject={calls}:delay_enter={}", delay.as_micros())]);
    strace.args(["-p", &member.id().to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
    Ok(SlowDisk(strace.spawn().map_err(|error| format!("cannot run strace: {error}; Debian's package is strace"))?))
}

impl SlowDisk {
    /// Returns an error if strace has ended before: then the disk was not slow.
    fn end(&mut self) -> Result {
        if let Some(status) = self.0.try_wait()? {
            return Err(format!("strace has ended ({status}); it needs the permission to trace other processes").into());
        }
        // The kernel detaches the member from a killed tracer.
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // Fails if it was ended.
        let _ = self.end();
    }
}
