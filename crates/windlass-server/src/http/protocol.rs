//! The protocol of a connection after its upgrade, for the response that agrees to it and the connection that continues.

use super::media::Encoding;

/// The numbers of the channels.
const STDIN: u8 = 0;
pub(super) const STDOUT: u8 = 1;
pub(super) const STDERR: u8 = 2;
pub(super) const ERROR: u8 = 3;
const RESIZE: u8 = 4;

/// The protocol of a connection after its upgrade. It is an extension of a response with code 101.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpgradedProtocol {
    /// A WebSocket that sends each frame of the body as a message.
    WebSocket(MessageType),
    /// A SPDY connection that waits for these streams, and sends each frame of the body on one of them.
    Spdy(Channels),
}

/// The type of the messages in the body of a response with code 101.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageType {
    Text,
    Binary,
}

/// The channels of a connection, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channels(pub(super) [bool; 5]);

impl MessageType {
    /// Returns the type of messages with events in an encoding.
    pub(super) const fn of(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Protobuf | Encoding::Cbor => Self::Binary,
            Encoding::Json | Encoding::PrettyJson | Encoding::Yaml => Self::Text,
        }
    }
}

impl Channels {
    /// Returns the channel of a stream by its type. `None` if the client did not request it.
    pub(crate) fn named(self, stream_type: &str) -> Option<u8> {
        let channel = match stream_type {
            "stdin" => STDIN,
            "stdout" => STDOUT,
            "stderr" => STDERR,
            "error" => ERROR,
            "resize" => RESIZE,
            _ => return None,
        };
        self.0[usize::from(channel)].then_some(channel)
    }

    /// Returns the number of channels.
    pub(crate) fn count(self) -> usize {
        self.0.into_iter().filter(|is_open| *is_open).count()
    }
}
