//! Shuffle sharding: a hash deals each flow a hand of different queues, so that two flows rarely share all of them.

/// The maximum size of a hand. Validation limits the entropy of a hand to 60 bits, so no hand is larger.
const MAX_HAND: usize = 20;

/// Deals hands from a deck of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dealer {
    deck: u32,
    hand: usize,
}

/// A hand of different queues.
#[derive(Debug)]
pub(super) struct Hand {
    queues: [u32; MAX_HAND],
    size: usize,
}

impl Dealer {
    /// Creates a dealer. A hand has at least one queue, and at most all of them.
    pub(super) fn new(deck: u32, hand: u32) -> Self {
        let deck = deck.max(1);
        Self { deck, hand: (hand.clamp(1, deck) as usize).min(MAX_HAND) }
    }

    /// Returns the hand of a flow.
    pub(super) fn deal(self, mut hash: u64) -> Hand {
        let mut dealt = [0; MAX_HAND];
        let mut queues = [0; MAX_HAND];
        for at in 0..self.hand {
            let left = u64::from(self.deck) - at as u64;
            // The position among the queues that are left, as a queue: each smaller queue that was dealt shifts it.
            let mut queue = u32::try_from(hash % left).unwrap_or_default();
            hash /= left;
            let smaller = dealt[..at].iter().take_while(|dealt| {
                let is_smaller = **dealt <= queue;
                queue += u32::from(is_smaller);
                is_smaller
            });
            let place = smaller.count();
            dealt.copy_within(place..at, place + 1);
            dealt[place] = queue;
            queues[at] = queue;
        }
        Hand { queues, size: self.hand }
    }
}

impl Hand {
    /// Returns the queues, beginning with another one for each offset.
    pub(super) fn from(&self, offset: u64) -> impl Iterator<Item = u32> + '_ {
        let first = usize::try_from(offset % self.size as u64).unwrap_or_default();
        (0..self.size).map(move |at| self.queues[(first + at) % self.size])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn hand(deck: u32, hand: u32, hash: u64) -> Vec<u32> {
        Dealer::new(deck, hand).deal(hash).from(0).collect()
    }

    #[test]
    fn hand_has_different_queues_of_the_deck() {
        for hash in (0..5000_u64).map(|seed| seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)) {
            let dealt = hand(64, 6, hash);
            let different: BTreeSet<u32> = dealt.iter().copied().collect();
            assert_eq!(different.len(), 6, "{dealt:?}");
            assert!(different.iter().all(|queue| *queue < 64), "{dealt:?}");
        }
    }

    #[test]
    fn every_hand_of_a_small_deck_is_dealt_once() {
        let all: BTreeSet<Vec<u32>> = (0..4 * 3 * 2).map(|hash| hand(4, 3, hash)).collect();
        assert_eq!(all.len(), 24);
        assert_eq!(hand(4, 3, 0), [0, 1, 2]);
        // The positions are 3 of 4, 1 of 3, 1 of 2.
        assert_eq!(hand(4, 3, 3 + 4 + 12), [3, 1, 2]);
    }

    #[test]
    fn hand_of_the_whole_deck_is_a_permutation() {
        let dealt: BTreeSet<u32> = hand(19, 19, u64::MAX).into_iter().collect();
        assert_eq!(dealt.len(), 19);
        assert_eq!(hand(1, 8, 77), [0]);
    }

    #[test]
    fn offset_rotates_a_hand() {
        let hand = Dealer::new(4, 3).deal(0);
        assert_eq!(hand.from(1).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(hand.from(5).collect::<Vec<_>>(), [2, 0, 1]);
    }
}
