use layercast_core::{Observer, Time};
use layercast_repair::Trunks;

use super::RepairEnd;

/// Tells each of the `ends` of the links of a node, which have numbers in rising order, what is known of others whose paths share a line with it.
pub fn compare_paths<'a, T: Clone + 'a, O: Observer>(
    now: Time,
    trunks: &mut Trunks,
    ends: impl Iterator<Item = (u32, &'a mut RepairEnd<T>)>,
    obs: &mut O,
) {
    let measured = ends.filter_map(|(id, end)| Some(((id, end.path_seen()?), end)));
    let (seen, mut ends): (Vec<_>, Vec<_>) = measured.unzip();
    for (beside, end) in trunks.compare(now, &seen).into_iter().zip(&mut ends) {
        end.set_beside(now, beside, obs);
    }
}
