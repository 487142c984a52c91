//! Messages between the processes of an isolated program, over a socket that keeps their boundaries.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    cmsg_space,
    io::retry_on_intr,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
};
use serde::{Deserialize, Serialize};
use tokio::{io::Interest, net::UnixStream};

/// The maximum size of a message in bytes.
const SIZE: usize = 4096;

/// A message of the helper.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Message {
    /// Init has been created. Carries the socket of the [`Connector`](super::Connector).
    Created {
        /// The process ID outside of the namespace. It is also the ID of the process group of the program.
        init: i32,
    },
    /// The namespaces are prepared. Carries the listener of the gateway.
    Prepared,
    /// The namespaces cannot be prepared.
    Failed { reason: String },
    /// The program was executed.
    Started,
    /// The program cannot be executed.
    NotStarted { reason: String, code: Option<i32> },
    /// The program has ended.
    Exited {
        /// The status as `wait` returns it.
        status: i32,
    },
    /// All processes have ended.
    Ended,
}

/// A message with the file descriptor that it carries.
pub(super) type Received = (Message, Option<OwnedFd>);

/// The end of a channel in the process of the exploration. The socket keeps the boundaries of messages, although its type
/// is that of a stream.
#[derive(Debug)]
pub(super) struct Channel(UnixStream);

/// Creates a channel. The second end is for a child process.
pub(super) fn channel() -> io::Result<(Channel, OwnedFd)> {
    let (ours, theirs) = pair()?;
    Ok((Channel::new(ours)?, theirs))
}

/// Creates two connected sockets, which new programs do not inherit.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

impl Channel {
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self(UnixStream::from_std(socket)?))
    }

    /// Receives the next message. Returns `None` if all other ends are closed. Cancel-safe.
    pub(super) async fn receive(&self) -> io::Result<Option<Received>> {
        self.0.async_io(Interest::READABLE, || receive(&self.0)).await
    }

    /// Sends an empty message, and receives the file descriptor in the response.
    pub(super) async fn request(&self) -> io::Result<OwnedFd> {
        send_bytes(self.0.as_fd(), b"{}", None)?;
        let receive = || receive_bytes(self.0.as_fd(), &mut [0; SIZE]);
        let (_, descriptor) = self.0.async_io(Interest::READABLE, receive).await?;
        descriptor.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

/// Sends a message with a file descriptor.
pub(super) fn send(socket: impl AsFd, message: &Message, carried: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(message)?;
    if bytes.len() > SIZE
        && let Message::Failed { .. } | Message::NotStarted { .. } = message
    {
        bytes = serde_json::to_vec(&Message::Failed { reason: "the error is too long".to_owned() })?;
    }
    send_bytes(socket.as_fd(), &bytes, carried)
}

/// Receives a message. Returns `None` if all other ends are closed.
fn receive(socket: impl AsFd) -> io::Result<Option<Received>> {
    let mut bytes = [0; SIZE];
    let (length, carried) = receive_bytes(socket.as_fd(), &mut bytes)?;
    if length == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&bytes[..length])?, carried)))
}

/// Sends a message that is not empty.
pub(super) fn send_bytes(socket: BorrowedFd<'_>, bytes: &[u8], carried: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let descriptors = carried.as_slice();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let parts = [IoSlice::new(bytes)];
    retry_on_intr(|| sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Receives a message. Returns its length, which is 0 if all other ends are closed.
pub(super) fn receive_bytes(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(bytes)];
    let received = retry_on_intr(|| recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let carried = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((received.bytes, carried))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[tokio::test]
    async fn messages_carry_file_descriptors_until_the_end() {
        let (channel, other) = channel().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send(&other, &Message::Created { init: 7 }, None).unwrap();
        send(&other, &Message::Prepared, Some(writer.as_fd())).unwrap();
        drop((other, writer));
        assert_eq!(channel.receive().await.unwrap().unwrap().0, Message::Created { init: 7 });
        let (message, carried) = channel.receive().await.unwrap().unwrap();
        assert_eq!(message, Message::Prepared);
        let mut file = std::fs::File::from(carried.unwrap());
        file.write_all(b"carried").unwrap();
        drop(file);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "carried");
        assert!(channel.receive().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn long_errors_are_replaced() {
        let (channel, other) = channel().unwrap();
        send(&other, &Message::Failed { reason: "x".repeat(2 * SIZE) }, None).unwrap();
        let (message, _) = channel.receive().await.unwrap().unwrap();
        assert_eq!(message, Message::Failed { reason: "the error is too long".to_owned() });
    }
}
