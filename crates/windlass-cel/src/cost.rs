//! What calls cost, in units of about 50 ns on a server of some years ago. The same rules serve the estimate, where sizes are
//! ranges, and the evaluation, where they are known.

/// From the least to the most of a size or a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// What a call costs, by the sizes of its arguments (the target first).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cost {
    /// The same for whatever arguments.
    Flat,
    /// Going through the first argument.
    First,
    /// The same, and the result is as large.
    Same,
    /// Going through the first argument twice.
    Twice,
    /// The second argument is gone through.
    Second,
    /// Going through the first argument; the result has between so many times its size.
    Recode(Recoding),
    Replace,
    Split,
    Join,
    /// Two texts become one.
    Concat,
    /// Two lists become one.
    Append,
    /// Up to the end of the shorter one.
    Compare,
    /// Comparing what is small whatever it is, else [`Cost::Compare`].
    Equal,
    /// The first contains the second.
    Contains,
    /// The first matches the pattern that is the second; found are parts of it.
    Pattern {
        finds: bool,
    },
    /// Each item of the second argument is looked at.
    Within,
    /// Each item of the first argument is looked at; of texts, every character.
    Items,
    /// A new list as large as the first argument, times so much.
    Copy,
    /// From the second argument to the third.
    Slice,
    /// As many items as the argument says.
    Count,
    /// Every item with every other; of texts, every character as well where they are `ordered`.
    Pairs {
        ordered: bool,
    },
    /// Every item of one with every item of the other, so often.
    Cross(u64),
    /// An address in a network, which is a text or read already.
    Network {
        text: bool,
        whole: bool,
    },
    /// Against a named format.
    Format,
}

/// How a size changes when a text becomes bytes, the reverse, or is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recoding {
    Encode,
    Decode,
    Quote,
}

/// What is known of an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) size: Range,
    /// The size of its items, when these are texts or bytes.
    pub(crate) texts: Option<Range>,
    /// It is a list; else what is asked of items is asked of characters.
    pub(crate) is_list: bool,
    /// The size of what it has, of whatever type.
    pub(crate) items: Option<Range>,
    /// The number it stands for, when that is known.
    pub(crate) number: Option<i64>,
    /// It is compared in one step.
    pub(crate) is_small: bool,
}

/// Going through a text, for each character.
const TRAVERSAL: f64 = 0.1;
/// A pattern, for each of its characters.
const PATTERN: f64 = 0.25;
/// A new list.
pub(crate) const NEW_LIST: u64 = 10;
/// A new map.
pub(crate) const NEW_MAP: u64 = 30;
/// A new object.
pub(crate) const NEW_OBJECT: u64 = 40;
/// The pattern of a named format is taken to be as long as this when it is not known which.
const LONGEST_FORMAT: f64 = 128.0;

impl Range {
    pub(crate) const UNKNOWN: Self = Self { least: 0, most: u64::MAX };

    pub(crate) const fn exactly(count: u64) -> Self {
        Self { least: count, most: count }
    }

    pub(crate) const fn to(least: u64, most: u64) -> Self {
        Self { least, most }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self::to(self.least.saturating_add(other.least), self.most.saturating_add(other.most))
    }

    pub(crate) fn times(self, other: Self) -> Self {
        Self::to(self.least.saturating_mul(other.least), self.most.saturating_mul(other.most))
    }

    pub(crate) fn scaled(self, factor: f64) -> Self {
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "as the real one computes it; saturating"
        )]
        let scale = |count: u64| (count as f64 * factor).ceil() as u64;
        Self::to(scale(self.least), scale(self.most))
    }

    /// Whatever either may be.
    pub(crate) fn or(self, other: Self) -> Self {
        Self::to(self.least.min(other.least), self.most.max(other.most))
    }
}

impl Cost {
    /// What a call costs, and the size of what comes out of it, if that can be said.
    pub(crate) fn of(self, args: &[Operand]) -> (Range, Option<Range>) {
        let size = |index: usize| args.get(index).map_or(Range::UNKNOWN, |arg| arg.size);
        let one = Range::exactly(1);
        match self {
            Self::Flat => (one, None),
            Self::First => (size(0).scaled(TRAVERSAL), None),
            Self::Same => (size(0).scaled(TRAVERSAL), Some(size(0))),
            Self::Twice => (size(0).scaled(2.0 * TRAVERSAL), None),
            Self::Second => (size(1).scaled(TRAVERSAL), None),
            Self::Recode(recoding) => {
                let Range { least, most } = size(0);
                let result = match recoding {
                    Recoding::Encode => Range::to(least, most.saturating_mul(4)),
                    Recoding::Decode => Range::to(least / 4, most),
                    Recoding::Quote => Range::to(least.saturating_add(2), most.saturating_mul(2).saturating_add(2)),
                };
                (size(0).scaled(TRAVERSAL), Some(result))
            }
            Self::Replace => (size(0).scaled(2.0 * TRAVERSAL), Some(replaced(size(0), size(1), size(2)))),
            Self::Split => {
                let parts = args.get(2).and_then(|limit| limit.number);
                let most = parts.map_or(size(0).most, |parts| u64::try_from(parts).unwrap_or(u64::MAX));
                (size(0).scaled(2.0 * TRAVERSAL), Some(Range::to(0, most)))
            }
            Self::Join => {
                let items = args.first().and_then(|list| list.items).unwrap_or(Range::UNKNOWN);
                let between = Range::to(size(0).least.saturating_sub(1), size(0).most.saturating_sub(1));
                let separators = if args.len() > 1 { size(1).times(between) } else { Range::exactly(0) };
                let result = size(0).times(items).plus(separators);
                (result.scaled(TRAVERSAL), Some(result))
            }
            Self::Concat => {
                let both = size(0).plus(size(1));
                (both.scaled(TRAVERSAL), Some(both))
            }
            Self::Append => (one, Some(size(0).plus(size(1)))),
            Self::Equal if args.iter().all(|arg| arg.is_small) => (one, None),
            Self::Compare | Self::Equal => {
                let most = size(0).most.min(size(1).most);
                (Range::to(most.min(1), most).scaled(TRAVERSAL), None)
            }
            Self::Contains => (size(0).scaled(TRAVERSAL).times(size(1).scaled(TRAVERSAL)), None),
            Self::Pattern { finds } => {
                let cost = size(0).plus(one).scaled(TRAVERSAL).times(size(1).scaled(PATTERN));
                (cost, finds.then(|| Range::to(0, size(0).most)))
            }
            Self::Within => (size(1), None),
            Self::Items => match args.first() {
                Some(Operand { is_list: true, texts, size, .. }) => {
                    let each = texts.map_or(one, |texts| one.plus(texts.scaled(TRAVERSAL)));
                    (size.times(each), None)
                }
                _ => (size(0).scaled(TRAVERSAL), None),
            },
            Self::Copy => {
                let factor = args.get(1).map_or(1, |depth| amount(depth.number, u64::MAX));
                new_list(size(0).times(Range::exactly(factor)), size(0))
            }
            Self::Slice => {
                let number = |index: usize, unsaid| amount(args.get(index).and_then(|arg| arg.number), unsaid);
                let length = Range::exactly(number(2, size(0).most).saturating_sub(number(1, 0)));
                new_list(length, length)
            }
            Self::Count => {
                let length = Range::exactly(amount(args.first().and_then(|arg| arg.number), u64::MAX));
                new_list(length, length)
            }
            Self::Pairs { ordered } => {
                let keys = args.last();
                let reads = ordered && keys.is_some_and(|keys| keys.texts.is_some());
                let factor = if reads { 2.0 + TRAVERSAL } else { 2.0 };
                let length = keys.map_or(Range::UNKNOWN, |keys| keys.size);
                new_list(length.times(length).scaled(factor), length.times(length))
            }
            Self::Cross(often) => (size(0).times(size(1)).times(Range::exactly(often)).plus(one), None),
            Self::Network { text, whole } => {
                let bytes = Range::to(4, 16);
                let mut cost = bytes.plus(bytes).scaled(TRAVERSAL);
                if whole {
                    cost = cost.plus(bytes.scaled(TRAVERSAL)).plus(one);
                }
                (if text { cost.plus(size(1).scaled(TRAVERSAL)) } else { cost }, None)
            }
            Self::Format => (size(1).scaled(TRAVERSAL).scaled(LONGEST_FORMAT * PATTERN), None),
        }
    }
}

fn amount(number: Option<i64>, unsaid: u64) -> u64 {
    number.map_or(unsaid, |number| u64::try_from(number).unwrap_or(0))
}

/// The cost of a list that costs so much to fill, and its size.
fn new_list(filling: Range, size: Range) -> (Range, Option<Range>) {
    (filling.plus(Range::exactly(NEW_LIST + 1)), Some(size))
}

/// The size of a text in which parts of one size are replaced by some of another.
fn replaced(text: Range, part: Range, by: Range) -> Range {
    let ceil = |a: u64, b: u64| a.div_ceil(b.max(1));
    let (most_often, kept_most) = match () {
        () if part.least == 0 => (text.most.saturating_add(1), text.most),
        () if by.most <= part.least => (0, text.most),
        () => (ceil(text.most, part.least), 0),
    };
    let (least_often, kept_least) = match () {
        () if part.most == 0 => (text.least.saturating_add(1), text.least),
        () if part.most <= by.least => (0, text.least),
        () => (ceil(text.least, part.most), 0),
    };
    Range::to(least_often, most_often).times(by).plus(Range::to(kept_least, kept_most))
}
