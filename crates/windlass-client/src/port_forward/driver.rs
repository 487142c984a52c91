//! The task that carries one connection to a port of a pod.

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf},
    sync::watch,
    time::{Instant, MissedTickBehavior, interval_at, sleep},
};

use super::{Failure, LINGER};
use crate::websocket::{ConnectionError, Frame, PING_INTERVAL, Receiver, Sender};

const DATA: u8 = 0;
const ERROR: u8 = 1;
/// Each channel starts with the port number, in two bytes.
const PORT_PREFIX: usize = 2;
const CHUNK: usize = 32 << 10;

/// Carries a connection. Returns when the pod closes it, when it breaks, or when the local side has finished and the
/// pod is silent. The local side then reads the end of the stream.
pub(super) async fn drive(mut sender: Sender, mut receiver: Receiver, local: DuplexStream, failure: Failure) {
    let (from_local, to_local) = tokio::io::split(local);
    let (done, local_done) = watch::channel(false);
    let ended = tokio::select! {
        ended = receive(&mut receiver, to_local, local_done) => ended,
        error = send(&mut sender, from_local, done) => Err(error.to_string()),
    };
    // Record the error before this function returns, because the local side then reads the end.
    match ended {
        Ok(()) => sender.close().await,
        Err(why) => *failure.lock() = Some(why),
    }
}

async fn receive(
    receiver: &mut Receiver,
    mut local: WriteHalf<DuplexStream>,
    mut local_done: watch::Receiver<bool>,
) -> Result<(), String> {
    let mut prefixes = [PORT_PREFIX; 2];
    loop {
        let lingered = async {
            // The sender is dropped only together with the connection.
            let _ = local_done.wait_for(|done| *done).await;
            sleep(LINGER).await;
        };
        let frame = tokio::select! {
            frame = receiver.next() => frame,
            () = lingered => return Ok(()),
        };
        let Some(Frame { channel, mut data }) = frame.map_err(|error| error.to_string())? else {
            return Ok(());
        };
        let Some(prefix) = prefixes.get_mut(usize::from(channel)) else { continue };
        strip(prefix, &mut data);
        match channel {
            // A local side that has stopped reading may still write.
            DATA => drop(local.write_all(&data).await),
            ERROR if !data.is_empty() => return Err(String::from_utf8_lossy(&data).trim_end().to_owned()),
            _ => {}
        }
    }
}

/// Removes the remaining bytes of the prefix.
fn strip(prefix: &mut usize, data: &mut Bytes) {
    let length = data.len().min(*prefix);
    *prefix -= length;
    drop(data.split_to(length));
}

async fn send(sender: &mut Sender, mut local: ReadHalf<DuplexStream>, done: watch::Sender<bool>) -> ConnectionError {
    let mut buffer = vec![0; CHUNK];
    let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let sent = tokio::select! {
            read = local.read(&mut buffer), if !*done.borrow() => match read {
                Ok(length) if length > 0 => sender.send(DATA, &buffer[..length]).await,
                _ => {
                    done.send_replace(true);
                    Ok(())
                }
            },
            _ = pings.tick() => sender.ping().await,
        };
        if let Err(error) = sent {
            return error;
        }
    }
}
