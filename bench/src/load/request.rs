//! Requests as encoded bytes, created before the measurement.

use windlass_api::BoxError;

/// The number of digits of a number in a request.
pub(crate) const DIGITS: usize = 8;

/// A placeholder in paths and bodies for the number of the object.
pub(crate) const OBJECT: &str = "00000000";

/// A placeholder for the number of the request, which is unique in the load.
pub(crate) const REQUEST: &str = "11111111";

/// A placeholder for random characters, other ones at each place and for each object.
pub(crate) const RANDOM: &str = "22222222";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The default maximum frame size; servers only accept larger frames if they announce it.
const FRAME: usize = 16 << 10;

/// The frames of a request, with gaps for the stream and the numbers.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// The start positions of the frames.
    frames: Vec<usize>,
    objects: Vec<usize>,
    requests: Vec<usize>,
    random: Vec<usize>,
}

/// A request template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'r> {
    pub(crate) method: &'r str,
    pub(crate) path: &'r str,
    pub(crate) content_type: &'r str,
    pub(crate) body: &'r [u8],
}

impl Frames {
    pub(crate) fn of(request: &Request<'_>, authority: &str, token: &str) -> Result<Self, BoxError> {
        let mut headers = Vec::new();
        // Header fields are never indexed dynamically, so each request has the same bytes. The indices are those of
        // HPACK's static table.
        let mut header = |index: u8, value: &str| -> Result<(), BoxError> {
            integer(&mut headers, 4, usize::from(index));
            integer(&mut headers, 7, value.len());
            headers.extend_from_slice(value.as_bytes());
            Ok(())
        };
        header(2, request.method)?;
        header(4, request.path)?;
        header(6, "https")?;
        header(1, authority)?;
        header(19, "application/json")?;
        header(23, &format!("Bearer {token}"))?;
        if !request.body.is_empty() {
            header(28, &request.body.len().to_string())?;
            header(31, request.content_type)?;
        }
        if headers.len() > FRAME || request.body.len() > FRAME {
            return Err(format!("{} {}: a frame does not hold it", request.method, request.path).into());
        }
        let mut frames = Self::default();
        let end = if request.body.is_empty() { END_STREAM } else { 0 };
        frames.push(HEADERS, END_HEADERS | end, &headers);
        if !request.body.is_empty() {
            frames.push(DATA, END_STREAM, request.body);
        }
        let places = |mark: &str| -> Vec<usize> {
            let windows = frames.bytes.windows(DIGITS).enumerate();
            windows.filter(|(_, window)| *window == mark.as_bytes()).map(|(at, _)| at).collect()
        };
        (frames.objects, frames.requests, frames.random) = (places(OBJECT), places(REQUEST), separate(places(RANDOM)));
        Ok(frames)
    }

    fn push(&mut self, kind: u8, flags: u8, payload: &[u8]) {
        self.frames.push(self.bytes.len());
        frame(&mut self.bytes, kind, flags, 0, payload);
    }

    /// Appends the request with these numbers.
    pub(crate) fn write(&self, stream: u32, object: usize, request: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let own = &mut out[start..];
        for at in &self.frames {
            own[at + 5..at + 9].copy_from_slice(&stream.to_be_bytes());
        }
        for (places, number) in [(&self.objects, object), (&self.requests, request)] {
            if !places.is_empty() {
                let digits = digits(number);
                for at in places {
                    own[*at..at + DIGITS].copy_from_slice(&digits);
                }
            }
        }
        for (place, at) in self.random.iter().enumerate() {
            own[*at..at + DIGITS].copy_from_slice(&random(object, place));
        }
    }
}

/// Keeps the places that do not overlap the one before: placeholders may follow each other.
fn separate(places: Vec<usize>) -> Vec<usize> {
    let mut separate: Vec<usize> = Vec::new();
    for at in places {
        if separate.last().is_none_or(|last| last + DIGITS <= at) {
            separate.push(at);
        }
    }
    separate
}

/// Returns characters of base64 that depend on the numbers only.
fn random(object: usize, place: usize) -> [u8; DIGITS] {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // SplitMix64.
    let mut bits = ((object as u64) << 20 | place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    std::array::from_fn(|at| ALPHABET[(bits >> (6 * at) & 63) as usize])
}

/// Appends an HTTP/2 frame.
pub(super) fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Appends an HPACK integer with a prefix of this many bits; the other bits of the first byte are zero.
fn integer(out: &mut Vec<u8>, bits: u8, value: usize) {
    let most = (1_usize << bits) - 1;
    let low = |value: usize| value.to_le_bytes()[0];
    if value < most {
        return out.push(low(value));
    }
    out.push(low(most));
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(low(rest) | 0x80);
        rest >>= 7;
    }
    out.push(low(rest));
}

fn digits(number: usize) -> [u8; DIGITS] {
    let (mut digits, mut rest) = ([b'0'; DIGITS], number);
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10).to_le_bytes()[0];
        rest /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_in_requests_are_replaced_everywhere() {
        let path = format!("/maps/map-{OBJECT}");
        let body = format!(r#"{{"name":"map-{OBJECT}","value":"{REQUEST}"}}"#);
        let request = Request { method: "PUT", path: &path, content_type: "application/json", body: body.as_bytes() };
        let frames = Frames::of(&request, "localhost", "T").unwrap();
        let mut out = b"before".to_vec();
        frames.write(7, 42, 12_345_678, &mut out);
        let text = String::from_utf8_lossy(&out);
        assert!(text.starts_with("before"));
        assert!(text.contains("/maps/map-00000042"));
        assert!(text.ends_with(r#"{"name":"map-00000042","value":"12345678"}"#));
        let head = &out[6..15];
        assert_eq!((head[3], head[4], &head[5..]), (HEADERS, END_HEADERS, &[0, 0, 0, 7][..]));
        let data = 15 + usize::from(head[1]) * 256 + usize::from(head[2]);
        assert_eq!(out[data..data + 9], [0, 0, 42, DATA, END_STREAM, 0, 0, 0, 7]);
    }

    #[test]
    fn random_characters_depend_on_object_and_place() {
        let body = format!("<{}>", RANDOM.repeat(3));
        let request = Request { method: "POST", path: "/", content_type: "text/plain", body: body.as_bytes() };
        let frames = Frames::of(&request, "localhost", "T").unwrap();
        let text = |object| {
            let mut out = Vec::new();
            frames.write(1, object, 0, &mut out);
            let text = String::from_utf8_lossy(&out[out.len() - 26..]).into_owned();
            assert!(text.starts_with('<') && text.ends_with('>') && !text.contains("2222"), "{text}");
            text
        };
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
        assert_ne!(text(7)[1..9], text(7)[9..17]);
    }

    #[test]
    fn integers_are_as_the_specification_shows_them() {
        let encoded = |bits, value| {
            let mut out = Vec::new();
            integer(&mut out, bits, value);
            out
        };
        assert_eq!(encoded(5, 10), [10]);
        assert_eq!(encoded(5, 1337), [31, 154, 10]);
        assert_eq!(encoded(8, 42), [42]);
    }

    #[test]
    fn oversized_frame_is_rejected() {
        let body = vec![b'x'; FRAME + 1];
        let request = Request { method: "POST", path: "/", content_type: "text/plain", body: &body };
        assert!(Frames::of(&request, "localhost", "T").unwrap_err().to_string().starts_with("POST /: "));
    }
}
