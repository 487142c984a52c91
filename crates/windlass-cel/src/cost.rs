//! The cost model of calls, in units of about 50 ns on an older server. The same rules apply to the estimate, where
//! sizes are ranges, and to the evaluation, where they are known.

/// The range of a size or a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// The cost of a call, depending on the sizes of its arguments (the target first).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cost {
    /// Constant.
    Flat,
    /// A larger constant.
    Fixed(u64),
    /// The parsing of a selector, the second argument, into requirements.
    Selector,
    /// One traversal of the first argument.
    First,
    /// One traversal of the first argument. The result has the same size.
    Same,
    /// Two traversals of the first argument.
    Twice,
    /// One traversal of the second argument.
    Second,
    /// One traversal of the first argument. The size of the result depends on the recoding.
    Recode(Recoding),
    Replace,
    Split,
    Join,
    /// The concatenation of two texts.
    Concat,
    /// The concatenation of two lists.
    Append,
    /// A comparison, up to the end of the shorter argument.
    Compare,
    /// An equality test. Constant for small types, or else like [`Cost::Compare`].
    Equal,
    /// A search for the second argument in the first.
    Contains,
    /// A match of the first argument against the pattern in the second. With `finds`, the results are parts of the
    /// first.
    Pattern {
        finds: bool,
    },
    /// A traversal of the items of the second argument.
    Within,
    /// A traversal of the items of the first argument, or of the characters if it is a text. Texts in a list count by
    /// their characters.
    Items,
    /// A new list of the size of the first argument, multiplied by the second (a depth).
    Copy,
    /// A new list with the range from the second to the third argument.
    Slice,
    /// A new list with as many items as the argument states.
    Count,
    /// A comparison of every item with every other item. With `ordered`, texts count by their characters.
    Pairs {
        ordered: bool,
    },
    /// A comparison of every item of one list with every item of the other, this number of times.
    Cross(u64),
    /// A test whether a network contains an address, given as a text or as a parsed value.
    Network {
        text: bool,
        whole: bool,
    },
    /// A validation against a named format.
    Format,
}

/// The change of size when a text is encoded, decoded or quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recoding {
    Encode,
    Decode,
    Quote,
}

/// The known properties of an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) size: Range,
    /// The size of the items, if they are texts or bytes.
    pub(crate) texts: Option<Range>,
    /// The argument is a list. Otherwise it is traversed by characters.
    pub(crate) is_list: bool,
    /// The size of the items or entries, of any type.
    pub(crate) items: Option<Range>,
    /// The value of an integer, if it is known.
    pub(crate) number: Option<i64>,
    /// The argument is compared in one step.
    pub(crate) is_small: bool,
}

/// The cost of a text traversal per character.
const TRAVERSAL: f64 = 0.1;
/// The cost of a pattern per character.
const PATTERN: f64 = 0.25;
/// The number of requirements that a selector may have per character.
const SELECTOR_REQUIREMENTS: f64 = 0.5;
/// The cost of a requirement: a new list and a new object.
const NEW_REQUIREMENT: f64 = 50.0;
/// The cost of a new list.
pub(crate) const NEW_LIST: u64 = 10;
/// The cost of a new map.
pub(crate) const NEW_MAP: u64 = 30;
/// The cost of a new object.
pub(crate) const NEW_OBJECT: u64 = 40;
/// The assumed length of a named format's pattern if the format is not known.
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
            reason = "as kube-apiserver computes it; saturating"
        )]
        let scale = |count: u64| (count as f64 * factor).ceil() as u64;
        Self::to(scale(self.least), scale(self.most))
    }

    /// Returns the smallest range that contains both.
    pub(crate) fn or(self, other: Self) -> Self {
        Self::to(self.least.min(other.least), self.most.max(other.most))
    }
}

impl Cost {
    /// Returns the cost of a call, and the size of its result if it is known.
    pub(crate) fn of(self, args: &[Operand]) -> (Range, Option<Range>) {
        let size = |index: usize| args.get(index).map_or(Range::UNKNOWN, |arg| arg.size);
        let one = Range::exactly(1);
        match self {
            Self::Flat => (one, None),
            Self::Fixed(cost) => (Range::exactly(cost), None),
            Self::Selector => {
                let requirements = size(1).scaled(SELECTOR_REQUIREMENTS).scaled(NEW_REQUIREMENT);
                (Range::exactly(NEW_LIST).plus(size(1).scaled(TRAVERSAL)).plus(requirements), None)
            }
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

/// Returns the cost and the size of a new list. `filling` is the cost of its items.
fn new_list(filling: Range, size: Range) -> (Range, Option<Range>) {
    (filling.plus(Range::exactly(NEW_LIST + 1)), Some(size))
}

/// Returns the size of a text after replacing parts of one size by parts of another.
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
