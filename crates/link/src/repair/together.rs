use layercast_core::{Observer, Time};
use layercast_repair::beside;

use super::RepairEnd;

/// Tells each of the `ends` of the links of a node the rate of arrivals over the others whose paths share a line with it.
pub fn compare_paths<'a, T: Clone + 'a, O: Observer>(
    now: Time,
    ends: impl Iterator<Item = &'a mut RepairEnd<T>>,
    obs: &mut O,
) {
    let measured = ends.filter_map(|end| Some((end.path_seen()?, end)));
    let (seen, mut ends): (Vec<_>, Vec<_>) = measured.unzip();
    if ends.len() < 2 {
        return;
    }
    for (rate, end) in beside(now, &seen).into_iter().zip(&mut ends) {
        if let Some(rate) = rate {
            end.set_beside(now, rate, obs);
        }
    }
}
