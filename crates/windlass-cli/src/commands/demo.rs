//! `windlass demo`: shows the control loop.

mod tour;
mod replicaset;
mod output;
mod view;

use std::{
    error::Error,
    io::{self, BufWriter, IsTerminal},
    time::Duration,
};

use clap::{Args, ValueEnum};
use tokio::sync::oneshot;
use windlass_client::Client;
use windlass_controllers::{Controllers, Pace};
use windlass_runtime::{Manager, ReconcileEvent};
use windlass_server::Server;

use self::{
    output::Output,
    tour::Tour,
    view::{Color, Mode, View},
};
use crate::recorder::RequestLog;

/// The flags of `windlass demo`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Show a single controller step by step instead: replicaset scales from 2 replicas to 3
    #[arg(value_enum, value_name = "CONTROLLER")]
    controller: Option<WalkThrough>,
    /// Disable colors
    #[arg(long)]
    no_color: bool,
    /// Factor by which pods start and stop faster
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = speed)]
    speed: f64,
}

/// A controller that the demo can show step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WalkThrough {
    Replicaset,
}

/// The start time of a simulated pod at normal speed.
const POD_START: Duration = Duration::from_millis(600);
/// The stop time of a simulated pod at normal speed.
const POD_STOP: Duration = Duration::from_millis(300);
const NODES: usize = 3;

pub(crate) async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let terminal = io::stdout().is_terminal();
    let plain = options.no_color || !terminal || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let mode = if terminal { Mode::Live } else { Mode::Plain };
    let view = View::new(BufWriter::new(io::stdout()), mode, if plain { Color::No } else { Color::Yes });
    let pace = Pace::new(POD_START.div_f64(options.speed), POD_STOP.div_f64(options.speed));
    let controllers = Controllers::all().nodes(NODES).pace(pace);
    let pause = Duration::from_millis(700).div_f64(options.speed);
    if options.controller == Some(WalkThrough::Replicaset) {
        return replicaset::run(view, controllers, pause).await;
    }
    let output = Output::new(view);

    // The control plane: a server without a socket, a client that records its requests, and the controllers with this
    // client.
    let server = Server::builder().build();
    let requests = RequestLog::new({
        let output = output.clone();
        move |write| output.wrote(write)
    });
    let client = Client::from_service(requests.record(server.service()), "default");
    let mut manager = Manager::new(client.clone());
    manager.on_reconcile({
        let output = output.clone();
        move |event: &ReconcileEvent<'_>| output.reconciled(event)
    });
    controllers.add_to(&mut manager);
    let tour = Tour::new(client, &manager, output.clone(), pause);

    let (stop, stopped) = oneshot::channel::<()>();
    let mut control_plane = tokio::spawn(manager.run(async {
        // A message and a dropped sender both mean stop.
        let _ = stopped.await;
    }));
    let outcome = tokio::select! {
        outcome = tour.run() => outcome,
        ended = &mut control_plane => {
            ended??;
            return Err("the control plane ended by itself".into());
        }
        // The error of a closed output is returned at the end.
        () = output.closed() => Ok(()),
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    drop(stop);
    control_plane.await??;
    server.stop();
    output.sum_up(&requests.counts(), outcome.is_ok())?;
    outcome
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.1..=1_000.0).contains(&speed) => Ok(speed),
        _ => Err("expected a number from 0.1 to 1000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_speed_is_rejected() {
        assert_eq!(speed("2.5"), Ok(2.5));
        for odd in ["0", "-1", "NaN", "fast", "1e9"] {
            assert!(speed(odd).is_err(), "{odd}");
        }
    }
}
