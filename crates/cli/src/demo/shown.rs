//! Which pictures of a film a receiver showed, and how long each stood.

use super::decoder::Decoded;
use super::film::{Film, Places};

/// The pictures of a film that were shown, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    entries: Vec<Entry>,
}

/// A picture that the decoder returned.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    /// The number of the picture of the film in whose place it is shown.
    number: u64,
    /// Whether it is another picture than the one before it, or the film itself stands still.
    is_new: bool,
}

/// What is shown in the place of a picture of the film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    /// Its place among the pictures that the decoder returned.
    pub place: usize,
    /// How many pictures of the film passed since it began to be shown.
    pub age: u64,
}

impl Shown {
    /// What `decoded` shows of `film`, where `first` is the number of the first picture of an elementary stream; `None`
    /// where the place of pictures is not known.
    pub fn of(decoded: &[Decoded], film: &Film, first: Option<u64>) -> Option<Shown> {
        match (film.places(), first) {
            (Places::Times, _) => {
                let all = decoded.iter().map(|picture| {
                    let number = film.number_at(picture.at)?;
                    // The picture of an encoder may be equal to the one before, and none is a repeat.
                    Some(Entry {
                        number,
                        is_new: true,
                    })
                });
                Some(Shown {
                    entries: all.collect::<Option<_>>()?,
                })
            }
            (Places::Numbers, Some(first)) => {
                let all: Vec<_> = (first..).zip(decoded.iter().map(|it| it.sum)).collect();
                Some(Shown::from(&all, |number| film.is_still(number)))
            }
            _ => None,
        }
    }

    /// Of pictures with their numbers and checksums; `is_still` says where the film itself shows a picture again.
    fn from(pictures: &[(u64, u32)], is_still: impl Fn(u64) -> bool) -> Shown {
        let mut last = None;
        let entries = pictures.iter().map(|&(number, sum)| {
            let is_new = last.replace(sum) != Some(sum) || is_still(number);
            Entry { number, is_new }
        });
        Shown {
            entries: entries.collect(),
        }
    }

    /// The numbers of the first and the last picture of the film while it was shown; `None` if nothing was.
    pub fn period(&self) -> Option<(u64, u64)> {
        Some((self.entries.first()?.number, self.entries.last()?.number))
    }

    /// How many pictures of the film were shown, and in the place of how many the one before them stood still.
    pub fn counts(&self) -> (u64, u64) {
        let shown = self.entries.iter().filter(|it| it.is_new).count() as u64;
        let all = self
            .period()
            .map_or(0, |(first, last)| last.saturating_sub(first) + 1);
        (shown, all.saturating_sub(shown))
    }

    /// What is shown in the place of picture `number`; `None` outside of its period.
    pub fn at(&self, number: u64) -> Option<Instant> {
        let (first, last) = self.period()?;
        if !(first..=last).contains(&number) {
            return None;
        }
        let place = self.entries.iter().rposition(|it| it.number <= number)?;
        let began = self.entries[..=place].iter().rposition(|it| it.is_new)?;
        let age = number - self.entries[began].number;
        Some(Instant { place, age })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pictures: &[(u64, u32)]) -> Shown {
        Shown::from(pictures, |_| false)
    }

    #[test]
    fn a_picture_that_stands_in_the_place_of_others_is_frozen() {
        // One of four pictures came, and repeats replace the others.
        let sums = [7, 7, 7, 7, 8, 8, 8, 8];
        let all: Vec<_> = sums
            .iter()
            .enumerate()
            .map(|(at, sum)| (12 + at as u64, *sum))
            .collect();
        let shown = shown(&all);
        assert_eq!(shown.counts(), (2, 6));
        assert_eq!(shown.period(), Some((12, 19)));
        assert_eq!(shown.at(12), Some(Instant { place: 0, age: 0 }));
        assert_eq!(shown.at(18), Some(Instant { place: 6, age: 2 }));
        assert_eq!((shown.at(11), shown.at(20)), (None, None));
    }

    #[test]
    fn pictures_that_are_missing_are_frozen() {
        let numbers = [0, 1, 5];
        let entries = numbers
            .map(|number| Entry {
                number,
                is_new: true,
            })
            .to_vec();
        let shown = Shown { entries };
        assert_eq!(shown.counts(), (3, 3));
        assert_eq!(shown.at(4), Some(Instant { place: 1, age: 3 }));
    }

    #[test]
    fn where_the_film_stands_still_nothing_is_frozen() {
        let pictures = [(0, 1), (1, 1), (2, 1)];
        let shown = Shown::from(&pictures, |number| number == 1);
        assert_eq!(shown.counts(), (2, 1));
        assert_eq!(shown.at(2), Some(Instant { place: 2, age: 1 }));
    }

    #[test]
    fn nothing_shows_nothing() {
        assert_eq!((shown(&[]).counts(), shown(&[]).at(0)), ((0, 0), None));
    }
}
