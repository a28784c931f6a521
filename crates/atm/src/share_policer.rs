use layercast_core::DataClass;
use thiserror::Error;

use crate::Cell;

/// The largest part of a circuit that may be of the classes that are discarded last (specs/mpeg-picture-quality.md 7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassShares {
    /// Of class S, in percent.
    pub system: u8,
    /// Of class I, in percent.
    pub intra: u8,
    /// Cells that a class may be ahead of its share: those of the largest I picture.
    pub burst: u32,
}

impl Default for ClassShares {
    fn default() -> ClassShares {
        ClassShares {
            system: 10,
            intra: 70,
            burst: 4_096,
        }
    }
}

/// Reason why shares are invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SharesError {
    /// More than everything.
    #[error("a share of {0} %: at most 100 % of a circuit can be of one class")]
    Percent(u8),
    /// No cell could ever pass.
    #[error("a burst of 0 cells: a class may be at least one cell ahead of its share")]
    Burst,
}

/// Holds the shares of a circuit, so that a source that marks everything as most important gains nothing: cells above the
/// share of their class are demoted by one class.
///
/// Each cell of the circuit, of whatever class, earns the share of S and of I.
#[derive(Clone, Debug)]
pub struct SharePolicer {
    shares: ClassShares,
    /// Credit of S and of I, in hundredths of a cell.
    credit: [u64; 2],
    demoted: [u64; 2],
}

/// Credit that a cell takes.
const CELL: u64 = 100;

impl SharePolicer {
    /// A policer with full credit.
    ///
    /// # Errors
    /// A share is above 100 %, or the burst is zero.
    pub fn new(shares: ClassShares) -> Result<SharePolicer, SharesError> {
        for percent in [shares.system, shares.intra] {
            if percent > 100 {
                return Err(SharesError::Percent(percent));
            }
        }
        if shares.burst == 0 {
            return Err(SharesError::Burst);
        }
        Ok(SharePolicer {
            shares,
            credit: [u64::from(shares.burst) * CELL; 2],
            demoted: [0; 2],
        })
    }

    /// Takes the next cell of the circuit; demotes it if its class is above its share.
    pub fn police(&mut self, cell: &mut Cell) {
        let most = u64::from(self.shares.burst) * CELL;
        let earned = [self.shares.system, self.shares.intra].map(u64::from);
        for (credit, earned) in self.credit.iter_mut().zip(earned) {
            *credit = (*credit + earned).min(most);
        }
        for class in [DataClass::System, DataClass::Intra] {
            if cell.class() != class {
                continue;
            }
            let credit = &mut self.credit[class.index()];
            match credit.checked_sub(CELL) {
                Some(left) => *credit = left,
                None => {
                    self.demoted[class.index()] += 1;
                    *cell = cell.with_class(class.demoted());
                }
            }
        }
    }

    /// Cells of S and of I that were demoted.
    pub fn demoted(&self) -> [u64; 2] {
        self.demoted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameId, Vcid};

    /// Cells of each class behind the policer, of a circuit with cells of these classes.
    fn behind(shares: ClassShares, classes: impl Iterator<Item = DataClass>) -> [u32; 4] {
        let mut policer = SharePolicer::new(shares).expect("good shares");
        let mut counts = [0; 4];
        for class in classes {
            let mut cell = Cell::of(FrameId(0), Vcid(1), 1, 3).with_class(class);
            policer.police(&mut cell);
            counts[cell.class().index()] += 1;
        }
        counts
    }

    #[test]
    fn a_source_that_marks_everything_as_system_data_gets_its_shares() {
        let shares = ClassShares {
            burst: 2,
            ..ClassShares::default()
        };
        let [system, intra, predicted, bidirectional] =
            behind(shares, std::iter::repeat_n(DataClass::System, 10_000));
        // 10 % of S; of the 90 % above that 70 % of I; the rest is P. Two cells of credit each.
        assert!((1_000..=1_002).contains(&system), "{system}");
        assert!((6_998..=7_002).contains(&intra), "{intra}");
        assert_eq!((system + intra + predicted, bidirectional), (10_000, 0));
    }

    #[test]
    fn an_honest_source_is_left_alone() {
        // Shares of the paper: 5, 53, 29, 13 %, each I picture in one piece.
        let picture = [(0, 50), (1, 530), (2, 290), (3, 130)];
        let cells =
            picture.map(|(rank, count)| std::iter::repeat_n(DataClass::of_rank(rank), count));
        let gop: Vec<DataClass> = cells.into_iter().flatten().collect();
        let counts = behind(
            ClassShares::default(),
            gop.iter().copied().cycle().take(100_000),
        );
        assert_eq!(counts, [5_000, 53_000, 29_000, 13_000]);
    }

    #[test]
    fn shares_that_are_none_are_refused() {
        let new = |system, intra, burst| {
            let shares = ClassShares {
                system,
                intra,
                burst,
            };
            SharePolicer::new(shares).map(|_| ())
        };
        assert_eq!(new(101, 70, 1), Err(SharesError::Percent(101)));
        assert_eq!(new(10, 200, 1), Err(SharesError::Percent(200)));
        assert_eq!(new(10, 70, 0), Err(SharesError::Burst));
        assert_eq!(new(100, 100, 1), Ok(()));
    }
}
