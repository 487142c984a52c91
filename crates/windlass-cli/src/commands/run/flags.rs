//! The manager's flags that set its listening addresses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

const HOST: &str = "--webhook-host";
const WEBHOOKS: &str = "--webhook-port";
const PROBES: &str = "--health-probe-bind-address";

/// The flags of a manager. The user's flags are kept; otherwise free loopback ports are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) arguments: Vec<String>,
    /// The address of the webhooks for the API server.
    pub(super) webhooks: SocketAddr,
    /// The address of the readiness probe; `None` if the user disables probes.
    pub(super) probes: Option<SocketAddr>,
}

impl Flags {
    pub(super) fn of(given: &[String]) -> Result<Self, String> {
        let mut arguments = given.to_vec();
        let mut webhooks = if let Some(port) = value(given, WEBHOOKS) {
            local(port).ok_or_else(|| format!("{WEBHOOKS} {port}: expected a port"))?
        } else {
            let address = free()?;
            arguments.push(format!("{WEBHOOKS}={}", address.port()));
            address
        };
        if let Some(host) = value(given, HOST) {
            let host: IpAddr = host.parse().map_err(|_| format!("{HOST} {host}: expected an IP address"))?;
            // A server on all addresses is reachable on loopback.
            if !host.is_unspecified() {
                webhooks.set_ip(host);
            }
        } else {
            arguments.push(format!("{HOST}={}", webhooks.ip()));
        }
        let probes = match value(given, PROBES) {
            Some("0" | "") => None,
            Some(wanted) => {
                let address = wanted.rsplit_once(':').and_then(|(_, port)| local(port));
                Some(address.ok_or_else(|| format!("{PROBES} {wanted}: expected an address and a port, or 0"))?)
            }
            None => {
                let address = free()?;
                arguments.push(format!("{PROBES}={address}"));
                Some(address)
            }
        };
        Ok(Self { arguments, webhooks, probes })
    }
}

/// Returns the value of a flag: `--flag=value` or `--flag value`.
fn value<'a>(arguments: &'a [String], flag: &str) -> Option<&'a str> {
    let place = arguments.iter().position(|argument| argument.split('=').next() == Some(flag))?;
    match arguments[place].split_once('=') {
        Some((_, value)) => Some(value),
        None => arguments.get(place + 1).map(String::as_str),
    }
}

fn local(port: &str) -> Option<SocketAddr> {
    port.parse::<u16>().ok().filter(|port| *port != 0).map(|port| (Ipv4Addr::LOCALHOST, port).into())
}

/// Returns an address with a port that is currently free.
fn free() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map_err(|error| format!("taking a free port of loopback: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(given: &[&str]) -> Result<Flags, String> {
        Flags::of(&given.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn user_flags_win_and_defaults_are_added() {
        let said = flags(&["--webhook-port", "9443", "--health-probe-bind-address=:8081"]).unwrap();
        let expected = ["--webhook-port", "9443", "--health-probe-bind-address=:8081", "--webhook-host=127.0.0.1"];
        assert_eq!(said.arguments, expected, "webhooks listen on this machine only");
        assert_eq!(said.webhooks.to_string(), "127.0.0.1:9443");
        let elsewhere = |host| flags(&["--webhook-port=9443", host]).unwrap();
        assert_eq!(elsewhere("--webhook-host=::1").webhooks.to_string(), "[::1]:9443");
        let everywhere = elsewhere("--webhook-host=0.0.0.0");
        assert_eq!(everywhere.webhooks.to_string(), "127.0.0.1:9443");
        assert_eq!(everywhere.arguments[1], "--webhook-host=0.0.0.0");
        assert!(flags(&["--webhook-host=here"]).unwrap_err().contains("expected an IP address"));
        assert_eq!(said.probes.unwrap().to_string(), "127.0.0.1:8081");
        let added = flags(&["--leader-elect"]).unwrap();
        let (webhooks, probes) = (added.webhooks.port(), added.probes.unwrap());
        let expected = [
            "--leader-elect".to_owned(),
            format!("--webhook-port={webhooks}"),
            "--webhook-host=127.0.0.1".to_owned(),
            format!("--health-probe-bind-address={probes}"),
        ];
        assert_eq!(added.arguments, expected);
        assert_eq!(flags(&["--health-probe-bind-address", "0"]).unwrap().probes, None);
        assert!(flags(&["--webhook-port=many"]).unwrap_err().contains("expected a port"));
        assert!(flags(&["--health-probe-bind-address=here"]).unwrap_err().contains("expected an address and a port"));
    }
}
