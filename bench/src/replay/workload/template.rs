//! Encoded objects with marks at positions that differ between objects or events.

/// An object's bytes, and the positions of its marks.
#[derive(Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    marks: Vec<(usize, Mark)>,
}

/// The values for the marks of a template.
#[derive(Clone, Copy, Debug)]
pub(super) struct TemplateValues {
    /// The number of the object.
    pub(super) object: u64,
    /// The number of its owner, which several objects share.
    pub(super) owner: u64,
    /// The number of the change; 0 is the initial state.
    pub(super) change: u64,
    /// The number of nodes.
    pub(super) nodes: u64,
}

/// The meaning of a mark. Each has a fixed width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The number of the object.
    Number,
    /// The number of its namespace.
    Namespace,
    /// The number of its node. Nodes with higher numbers have more objects.
    Node,
    /// The UID of the object.
    Uid,
    /// The UID of its owner.
    Owner,
    /// The hash of its owner.
    OwnerHash,
    Version,
    /// A time that depends on the last change.
    Time,
    /// 64 hexadecimal digits that change with each event.
    Digest,
    /// 16 hexadecimal digits that change with each event.
    Hash,
}

const MARKS: [(Mark, char, usize); 10] = [
    (Mark::Number, 'n', 7),
    (Mark::Namespace, 's', 2),
    (Mark::Node, 'e', 5),
    (Mark::Uid, 'u', 36),
    (Mark::Owner, 'o', 36),
    (Mark::OwnerHash, 'k', 10),
    (Mark::Version, 'r', 10),
    (Mark::Time, 't', 20),
    (Mark::Digest, 'd', 64),
    (Mark::Hash, 'h', 16),
];

/// A character that does not occur in texts, and that JSON does not escape.
pub(super) const MARKER: char = '\u{7f}';

/// The version before the first change.
pub(crate) const FIRST_VERSION: u64 = 1_000_000_000;

/// The number of namespaces.
pub(super) const NAMESPACES: u64 = 50;

/// Returns the text that represents a mark in a template.
pub(super) fn mark(which: Mark) -> String {
    let (_, letter, width) = MARKS.iter().find(|(mark, ..)| *mark == which).expect("every mark is in the table");
    let mut text = String::from(MARKER);
    text.push(*letter);
    text.extend(std::iter::repeat_n(MARKER, width - 2));
    text
}

// === impl Template ===

impl Template {
    /// Parses the marks.
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let mut marks = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            if let Some((mark, width)) = Mark::starting(&bytes[at..]) {
                marks.push((at, mark));
                at += width;
            } else {
                at += 1;
            }
        }
        Self { bytes, marks }
    }

    /// Returns the length of each object of this template.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes with their marks, except times, which must be valid for parsers.
    pub(super) fn with_times(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for (at, mark) in self.marks.iter().filter(|(_, mark)| *mark == Mark::Time) {
            mark.fill(&mut bytes[*at..], TemplateValues { object: 0, owner: 0, change: 0, nodes: 1 });
        }
        bytes
    }

    /// Appends the object.
    pub(super) fn write(&self, out: &mut Vec<u8>, filling: TemplateValues) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        for (at, mark) in &self.marks {
            mark.fill(&mut out[start + at..], filling);
        }
    }
}

impl Mark {
    /// Returns the mark at the start of the text, and its width. A marker without a valid mark is ignored: in a message
    /// it may be a length.
    fn starting(text: &[u8]) -> Option<(Self, usize)> {
        let [first, letter, ..] = text else { return None };
        let (mark, _, width) = MARKS.iter().find(|(_, known, _)| *known == char::from(*letter))?;
        let filler = text.get(2..*width)?;
        (*first == MARKER as u8 && filler.iter().all(|byte| *byte == MARKER as u8)).then_some((*mark, *width))
    }

    fn fill(self, out: &mut [u8], TemplateValues { object, owner, change, nodes }: TemplateValues) {
        match self {
            Self::Number => decimal(&mut out[..7], object),
            Self::Namespace => decimal(&mut out[..2], object % NAMESPACES),
            Self::Node => decimal(&mut out[..5], (mix(object, 6) % (nodes * nodes)).isqrt()),
            Self::Version => decimal(&mut out[..10], FIRST_VERSION + change),
            Self::Uid => uuid(out, mix(object, 1)),
            Self::Owner => uuid(out, mix(owner, 2)),
            Self::OwnerHash => hexadecimal(&mut out[..10], mix(owner, 3)),
            Self::Digest => hexadecimal(&mut out[..64], mix(object, change + 4)),
            Self::Hash => hexadecimal(&mut out[..16], mix(object, change + 5)),
            Self::Time => {
                out[..20].copy_from_slice(b"2026-11-22T00:00:00Z");
                let second = (object + change) % 86_400;
                decimal(&mut out[11..13], second / 3_600);
                decimal(&mut out[14..16], second / 60 % 60);
                decimal(&mut out[17..19], second % 60);
            }
        }
    }
}

fn decimal(out: &mut [u8], mut number: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
    }
}

fn hexadecimal(out: &mut [u8], seed: u64) {
    let mut state = seed;
    for (at, digit) in out.iter_mut().enumerate() {
        if at % 16 == 0 {
            state = mix(state, at as u64 + 9);
        }
        *digit = b"0123456789abcdef"[usize::try_from(state >> (at % 16 * 4) & 15).expect("four bits")];
    }
}

fn uuid(out: &mut [u8], seed: u64) {
    hexadecimal(&mut out[..36], seed);
    for at in [8, 13, 18, 23] {
        out[at] = b'-';
    }
    out[14] = b'4';
}

/// Returns a pseudo-random number that only depends on the two arguments.
fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    for _ in 0..2 {
        x = (x ^ (x >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
    }
    x ^ (x >> 29)
}

// === the objects ===
