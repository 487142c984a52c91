//! A client that uses another server if its own fails.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use windlass_api::Entropy;
use windlass_client::Client;

use crate::{
    Result,
    cluster::Endpoint,
    operation::{Outcome, Request},
};

/// The pause after a request that was not executed.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Failover {
    endpoints: Vec<Endpoint>,
    /// The connections to each server, unless they have failed.
    clients: Vec<Option<Client>>,
    current: usize,
    /// The time for a request.
    limit: Duration,
    availability: Availability,
}

/// The longest time without an answer, for requests to the current server.
#[derive(Debug)]
pub(crate) struct Availability {
    last_answer: Instant,
    longest_gap: Duration,
}

impl Failover {
    pub(crate) fn new(endpoints: &[Endpoint], first: usize, limit: Duration) -> Self {
        let clients = endpoints.iter().map(|_| None).collect();
        let availability = Availability { last_answer: Instant::now(), longest_gap: Duration::ZERO };
        Self { endpoints: endpoints.to_vec(), clients, current: first % endpoints.len(), limit, availability }
    }

    /// Sends a request to the current server. The next request goes to another one if this one fails.
    pub(crate) async fn send(&mut self, request: &Request, name: &str) -> Result<Outcome> {
        let outcome = self.send_to(self.current, request, name).await?;
        if outcome.is_answer() {
            self.availability.answered();
        } else {
            self.current = (self.current + 1) % self.endpoints.len();
        }
        Ok(outcome)
    }

    /// Sends a request to a random server.
    pub(crate) async fn send_anywhere(&mut self, request: &Request, name: &str, random: &Entropy) -> Result<Outcome> {
        let server = random.below(u64::try_from(self.endpoints.len())?);
        self.send_to(usize::try_from(server)?, request, name).await
    }

    async fn send_to(&mut self, server: usize, request: &Request, name: &str) -> Result<Outcome> {
        let client = match &mut self.clients[server] {
            Some(client) => client,
            lost => lost.insert(self.endpoints[server].client()?),
        };
        let outcome = request.send_within(self.limit, client, name).await;
        match &outcome {
            // The connection may be lost without a sign of it.
            Outcome::Unknown(_) => self.clients[server] = None,
            Outcome::Rejected => {
                self.clients[server] = None;
                sleep(PAUSE).await;
            }
            _ => {}
        }
        Ok(outcome)
    }

    /// Returns the longest time without an answer.
    pub(crate) fn longest_gap(mut self) -> Duration {
        self.availability.answered();
        self.availability.longest_gap
    }
}

impl Availability {
    fn answered(&mut self) {
        let now = Instant::now();
        self.longest_gap = self.longest_gap.max(now - self.last_answer);
        self.last_answer = now;
    }
}
