//! The flags for the number of requests at the same time, with the names of kube-apiserver.

use clap::{ArgAction, Args};
use windlass_server::ServerBuilder;

const READS: u32 = 400;
const WRITES: u32 = 200;

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct RequestLimits {
    /// Maximum number of reads at the same time; 0 for no limit. With priority and fairness, the sum of this and
    /// --max-mutating-requests-inflight is shared by the priority levels, and must be positive
    #[arg(long, value_name = "N", default_value_t = READS)]
    max_requests_inflight: u32,
    /// Maximum number of writes at the same time; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = WRITES)]
    max_mutating_requests_inflight: u32,
    /// Let FlowSchemas and PriorityLevelConfigurations decide which requests run, wait or are rejected
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    enable_priority_and_fairness: bool,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self::new(None, None, None)
    }
}

impl RequestLimits {
    pub(crate) fn new(reads: Option<u32>, writes: Option<u32>, is_fair: Option<bool>) -> Self {
        Self {
            max_requests_inflight: reads.unwrap_or(READS),
            max_mutating_requests_inflight: writes.unwrap_or(WRITES),
            enable_priority_and_fairness: is_fair.unwrap_or(true),
        }
    }

    /// Returns an error if the priority levels would have nothing to share.
    pub(crate) fn checked(self) -> Result<Self, String> {
        let Self { max_requests_inflight: reads, max_mutating_requests_inflight: writes, .. } = self;
        if self.enable_priority_and_fairness && reads == 0 && writes == 0 {
            return Err(format!(
                "invalid configuration: MaxRequestsInFlight={reads} and MaxMutatingRequestsInFlight={writes}; they must \
                 add up to something positive; disable the limits with --enable-priority-and-fairness=false"
            ));
        }
        Ok(self)
    }

    pub(crate) const fn apply(self, server: ServerBuilder) -> ServerBuilder {
        server
            .max_requests_in_flight(self.max_requests_inflight)
            .max_mutating_requests_in_flight(self.max_mutating_requests_inflight)
            .priority_and_fairness(self.enable_priority_and_fairness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_must_be_positive_with_fairness() {
        let error =
            |reads, writes, is_fair| RequestLimits::new(Some(reads), Some(writes), Some(is_fair)).checked().err();
        let message = error(0, 0, true).unwrap();
        assert!(message.starts_with("invalid configuration: MaxRequestsInFlight=0 and"), "{message}");
        assert_eq!(error(0, 0, false), None);
        assert_eq!(error(0, 1, true), None);
    }

    #[test]
    fn fairness_can_be_disabled_as_in_go() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            limits: RequestLimits,
        }
        for (flags, is_fair) in [
            (&[][..], true),
            (&["--enable-priority-and-fairness"], true),
            (&["--enable-priority-and-fairness=true"], true),
            (&["--enable-priority-and-fairness=false", "--max-requests-inflight=5"], false),
        ] {
            let flags = std::iter::once(&"up").chain(flags);
            let parsed = <Command as clap::Parser>::try_parse_from(flags).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(parsed.limits.enable_priority_and_fairness, is_fair);
        }
    }
}
