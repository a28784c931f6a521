//! What a rate pays for: the mapping from the network to the user.

use serde::Serialize;

use crate::error::ProfileError;
use crate::mapping::{Mapping, Unit};
use crate::tables::Tables;

/// What a rate pays for with one codec and one size of pictures.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Afforded {
    /// Word for the size.
    pub size: String,
    /// Width and height in pixels.
    pub pixels: [u32; 2],
    /// Name of the codec.
    pub codec: String,
    /// Most pictures per second; 0: not one.
    pub per_second: u64,
    /// The most fluent word for that; null: less than the lowest.
    pub fluency: Option<String>,
}

/// Pictures in colour that `bps` pays for, by size and codec; sizes from the smallest on.
///
/// # Errors
/// A size is beyond 2^64, or the data unit of the network has no room for payload.
pub fn afford(bps: u64, tables: &Tables, unit: Unit) -> Result<Vec<Afforded>, ProfileError> {
    let mut sizes: Vec<_> = tables.size.iter().collect();
    sizes.sort_by_key(|(_, (width, height))| u64::from(*width) * u64::from(*height));
    let mut all = Vec::new();
    for (size, &(width, height)) in sizes {
        for (codec, it) in &tables.codec.video {
            let bits = u64::from(width)
                .checked_mul(height.into())
                .and_then(|pixels| pixels.checked_mul(tables.pixel.colour.into()))
                .ok_or_else(|| ProfileError::value(size, "S(u)", "beyond 2^64 bits"))?;
            let mapping = Mapping {
                per_second: 1,
                user: bits.div_ceil(8),
                factor: it.factor,
                unit,
            };
            let most = mapping.per_second_within(bps);
            let per_second = most.map_err(|error| ProfileError::Mapping {
                stream: size.clone(),
                error,
            })?;
            let fluency = tables
                .fluency
                .iter()
                .filter(|&(_, &rate)| u64::from(rate) <= per_second)
                .max_by_key(|&(_, &rate)| rate);
            all.push(Afforded {
                size: size.clone(),
                pixels: [width, height],
                codec: codec.clone(),
                per_second,
                fluency: fluency.map(|(word, _)| word.clone()),
            });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_paid_for_by_more_and_by_better_codecs() {
        let tables = Tables::default();
        let find = |bps, size: &str, codec: &str| {
            let all = afford(bps, &tables, Unit::datagram(1_500)).unwrap();
            let it = all
                .into_iter()
                .find(|it| it.size == size && it.codec == codec);
            it.unwrap()
        };
        let mpeg = find(2_000_000, "large", "mpeg");
        assert_eq!(
            (mpeg.per_second, mpeg.fluency.as_deref()),
            (31, Some("high"))
        );
        assert_eq!(find(2_000_000, "large", "raw").per_second, 0);
        assert_eq!(find(2_000_000, "large", "raw").fluency, None);
        assert!(
            find(2_000_000, "hd", "h265").per_second > find(2_000_000, "hd", "h264").per_second
        );
        assert!(
            find(4_000_000, "hd", "h264").per_second > find(2_000_000, "hd", "h264").per_second
        );
    }
}
