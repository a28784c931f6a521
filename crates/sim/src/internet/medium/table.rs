use std::collections::VecDeque;

use super::hop::Hop;

/// The shortest paths between routers, by number of hops.
///
/// Where the network is a tree there is one way, and it needs no table: into a branch it leads down to the branch that
/// has the number of the destination, else up. Only the routers on rings, and between them, have a table of each other.
#[derive(Debug)]
pub(crate) struct Table {
    places: Vec<Place>,
    /// The branches below each router, together: number of the first in it, and the way to it.
    branches: Vec<(u32, u32)>,
    /// For each pair of routers that are on no branch, the way from the first to the second.
    ways_between: Vec<u32>,
    /// How many these are.
    core: usize,
    /// The hops from each router to its neighbours, together, and those of ways that are no part of these.
    hops: Vec<Hop>,
    /// Where a way starts and ends in `hops`: its hops are equally good.
    ways: Vec<(u32, u32)>,
}

/// Where a router is.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its number; those of what is below it follow.
    first: u32,
    /// The number after them.
    end: u32,
    /// The way up from a branch, or `NONE`.
    up: u32,
    /// Place in the table of the router its branch hangs on, or of itself.
    core: u32,
    /// Which of the parts of a network that do not reach each other.
    part: u32,
    /// Where the branches below it start and end.
    below: (u32, u32),
}

const NONE: u32 = u32::MAX;

/// Most routers on rings: their table takes 2.5 GB.
pub(crate) const MOST_ON_RINGS: usize = 25_000;

impl Table {
    /// The paths between routers whose hops to their neighbours are these; how many are on rings, if they are too many.
    pub fn new(neighbours: &[Vec<(u32, Hop)>]) -> Result<Table, usize> {
        let near: Vec<Vec<u32>> = neighbours.iter().map(|hops| distinct(hops)).collect();
        let (above, order) = branches(&near);
        let core = above.len() - order.len();
        if core > MOST_ON_RINGS {
            return Err(core);
        }
        let mut makes = Maker::new(neighbours);
        let mut places = number(&above, &order);
        let mut below: Vec<Vec<(u32, u32)>> = vec![Vec::new(); places.len()];
        // From above: numbers come in their order.
        for &n in order.iter().rev() {
            let parent = above[n as usize];
            places[n as usize].up = makes.way(n, |m| m == parent);
            let down = makes.way(parent, |m| m == n);
            below[parent as usize].push((places[n as usize].first, down));
        }
        let mut all = Vec::with_capacity(order.len());
        for (place, below) in places.iter_mut().zip(below) {
            let start = all.len() as u32;
            all.extend(below);
            place.below = (start, all.len() as u32);
        }
        let mut table = Table {
            places,
            branches: all,
            ways_between: vec![NONE; core * core],
            core,
            hops: Vec::new(),
            ways: Vec::new(),
        };
        table.fill(&near, &above, &mut makes);
        (table.hops, table.ways) = (makes.hops, makes.ways);
        Ok(table)
    }

    /// The ways between routers that are on no branch.
    fn fill(&mut self, near: &[Vec<u32>], above: &[u32], makes: &mut Maker<'_>) {
        let routers = 0..above.len() as u32;
        let core: Vec<u32> = routers.filter(|&n| above[n as usize] == NONE).collect();
        let place = |n: u32| self.places[n as usize].core as usize;
        let near: Vec<Vec<usize>> = core
            .iter()
            .map(|&n| {
                let near = near[n as usize].iter();
                let near = near.filter(|&&m| above[m as usize] == NONE);
                near.map(|&m| place(m)).collect()
            })
            .collect();
        let mut parts = vec![NONE; core.len()];
        let mut distance = vec![NONE; core.len()];
        let mut line = VecDeque::new();
        for to in 0..core.len() {
            distance.fill(NONE);
            distance[to] = 0;
            line.push_back(to);
            let part = if parts[to] == NONE {
                to as u32
            } else {
                parts[to]
            };
            while let Some(at) = line.pop_front() {
                parts[at] = part;
                for &n in &near[at] {
                    if distance[n] == NONE {
                        distance[n] = distance[at] + 1;
                        line.push_back(n);
                    }
                }
            }
            for from in (0..core.len()).filter(|&from| from != to && distance[from] != NONE) {
                let nearer =
                    |n: u32| above[n as usize] == NONE && distance[place(n)] + 1 == distance[from];
                self.ways_between[from * core.len() + to] = makes.way(core[from], nearer);
            }
        }
        for place in &mut self.places {
            place.part = parts[place.core as usize];
        }
    }

    /// The hops from one router towards another that are equally good; none if there is no way.
    #[inline]
    pub fn hops(&self, from: u32, to: u32) -> &[Hop] {
        let (here, there) = (&self.places[from as usize], &self.places[to as usize]);
        if from == to || here.part != there.part {
            return &[];
        }
        let way = if (here.first..here.end).contains(&there.first) {
            let (start, end) = here.below;
            let below = &self.branches[start as usize..end as usize];
            below[below.partition_point(|&(first, _)| first <= there.first) - 1].1
        } else if here.up != NONE {
            here.up
        } else {
            self.ways_between[here.core as usize * self.core + there.core as usize]
        };
        let (start, end) = self.ways[way as usize];
        &self.hops[start as usize..end as usize]
    }

    /// Routers.
    pub fn len(&self) -> usize {
        self.places.len()
    }
}

fn distinct(hops: &[(u32, Hop)]) -> Vec<u32> {
    let mut near: Vec<u32> = hops.iter().map(|&(n, _)| n).collect();
    near.sort_unstable();
    near.dedup();
    near
}

/// Removes nodes with only one neighbour left, repeatedly: returns for each router on a branch the one above
/// it, and these routers in the order of removal.
fn branches(near: &[Vec<u32>]) -> (Vec<u32>, Vec<u32>) {
    let mut left: Vec<usize> = near.iter().map(Vec::len).collect();
    let mut above = vec![NONE; near.len()];
    let mut order = Vec::new();
    let mut ends: Vec<u32> = (0..near.len() as u32)
        .filter(|&n| left[n as usize] == 1)
        .collect();
    while let Some(n) = ends.pop() {
        // The last one of a tree has no neighbour left.
        let stays = |&&m: &&u32| above[m as usize] == NONE;
        let Some(&parent) = near[n as usize].iter().find(stays) else {
            continue;
        };
        above[n as usize] = parent;
        order.push(n);
        left[parent as usize] -= 1;
        if left[parent as usize] == 1 {
            ends.push(parent);
        }
    }
    (above, order)
}

/// Numbers all so that those of a branch follow each other.
fn number(above: &[u32], order: &[u32]) -> Vec<Place> {
    let mut size = vec![1; above.len()];
    for &n in order {
        size[above[n as usize] as usize] += size[n as usize];
    }
    let nowhere = Place {
        first: 0,
        end: 0,
        up: NONE,
        core: 0,
        part: NONE,
        below: (0, 0),
    };
    let mut places = vec![nowhere; above.len()];
    // The next number that is free among those of each branch.
    let mut free = vec![0; above.len()];
    let (mut next, mut core) = (0, 0);
    for n in (0..above.len()).filter(|&n| above[n] == NONE) {
        let place = &mut places[n];
        (place.first, place.end, place.core) = (next, next + size[n], core);
        free[n] = next + 1;
        (next, core) = (place.end, core + 1);
    }
    for n in order.iter().rev().map(|&n| n as usize) {
        let parent = above[n] as usize;
        let first = free[parent];
        free[parent] += size[n];
        free[n] = first + 1;
        let core = places[parent].core;
        let place = &mut places[n];
        (place.first, place.end, place.core) = (first, first + size[n], core);
    }
    places
}

/// Makes ways of the hops of routers.
struct Maker<'a> {
    neighbours: &'a [Vec<(u32, Hop)>],
    /// Where those of each router start in `hops`.
    starts: Vec<u32>,
    hops: Vec<Hop>,
    /// The first of them are those of one hop each.
    ways: Vec<(u32, u32)>,
    /// The others, by router.
    several: Vec<Vec<u32>>,
    /// Of the way being made.
    found: Vec<u32>,
}

impl<'a> Maker<'a> {
    fn new(neighbours: &'a [Vec<(u32, Hop)>]) -> Maker<'a> {
        let (mut starts, mut hops) = (Vec::new(), Vec::new());
        for near in neighbours {
            starts.push(hops.len() as u32);
            hops.extend(near.iter().map(|&(_, hop)| hop));
        }
        Maker {
            neighbours,
            starts,
            ways: (0..hops.len() as u32).map(|n| (n, n + 1)).collect(),
            hops,
            several: vec![Vec::new(); neighbours.len()],
            found: Vec::new(),
        }
    }

    /// The next hop of `router` over all neighbours that are `nearer`, of which there is at least one.
    fn way(&mut self, router: u32, nearer: impl Fn(u32) -> bool) -> u32 {
        let router = router as usize;
        let near = self.neighbours[router].iter().zip(self.starts[router]..);
        let near = near.filter(|((n, _), _)| nearer(*n));
        self.found.clear();
        self.found.extend(near.map(|(_, at)| at));
        let found = &self.found;
        if let [one] = found[..] {
            return one;
        }
        let hops = &mut self.hops;
        let same = |&&way: &&u32| {
            let (start, end) = self.ways[way as usize];
            let way = hops[start as usize..end as usize].iter();
            way.eq(found.iter().map(|&at| &hops[at as usize]))
        };
        if let Some(&way) = self.several[router].iter().find(same) {
            return way;
        }
        let start = hops.len() as u32;
        for &at in found {
            hops.push(hops[at as usize]);
        }
        self.ways.push((start, hops.len() as u32));
        let way = self.ways.len() as u32 - 1;
        self.several[router].push(way);
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::internet::NodeIndex;
    use crate::internet::medium::hop::Interface;
    use proptest::prelude::*;

    type Neighbours = Vec<Vec<(u32, Hop)>>;

    /// Routers joined by links, of which there may be several between two.
    fn joined(count: usize, links: &[(usize, usize)]) -> Neighbours {
        let mut neighbours = vec![Vec::new(); count];
        let links = links.iter().map(|&(a, b)| (a % count, b % count));
        for (n, (a, b)) in links.enumerate().filter(|(_, (a, b))| a != b) {
            for (way, from, to) in [(0, a, b), (1, b, a)] {
                let hop = Hop {
                    interface: Interface::Pipe(2 * n as u32 + way),
                    next: NodeIndex(to as u32),
                };
                neighbours[from].push((to as u32, hop));
            }
        }
        neighbours
    }

    /// All shortest ways, each by a search of its own.
    fn searched(neighbours: &Neighbours, from: usize, to: usize) -> Vec<Hop> {
        let mut distance = vec![usize::MAX; neighbours.len()];
        distance[to] = 0;
        for round in 0..neighbours.len() {
            for n in 0..neighbours.len() {
                let near = neighbours[n]
                    .iter()
                    .any(|&(m, _)| distance[m as usize] == round);
                if near && distance[n] == usize::MAX {
                    distance[n] = round + 1;
                }
            }
        }
        let nearer = |&&(n, _): &&(u32, Hop)| {
            distance[from] != usize::MAX && distance[n as usize] + 1 == distance[from]
        };
        let hops = neighbours[from].iter().filter(nearer);
        hops.map(|&(_, hop)| hop).collect()
    }

    fn agrees(neighbours: &Neighbours) {
        let table = Table::new(neighbours).unwrap();
        for from in 0..neighbours.len() {
            for to in (0..neighbours.len()).filter(|&to| to != from) {
                let expected = searched(neighbours, from, to);
                let found = table.hops(from as u32, to as u32);
                assert_eq!(found, expected, "{from} to {to} of {neighbours:?}");
            }
            assert!(table.hops(from as u32, from as u32).is_empty());
        }
    }

    proptest! {
        #[test]
        fn ways_are_those_that_a_search_finds(
            count in 1usize..14,
            links in prop::collection::vec((0usize..14, 0usize..14), 0..20),
        ) {
            agrees(&joined(count, &links));
        }

        #[test]
        fn trees_with_a_few_rings_have_the_shortest_ways(
            above in prop::collection::vec(any::<prop::sample::Index>(), 1..24),
            rings in prop::collection::vec((0usize..24, 0usize..24), 0..3),
        ) {
            let tree = above.iter().enumerate().map(|(n, above)| (n + 1, above.index(n + 1)));
            let links: Vec<(usize, usize)> = tree.chain(rings).collect();
            agrees(&joined(above.len() + 1, &links));
        }
    }

    #[test]
    fn a_tree_has_no_table_and_rings_have_their_bound() {
        let links: Vec<_> = (1..100_000).map(|n| (n, n / 3)).collect();
        let table = Table::new(&joined(100_000, &links)).unwrap();
        assert_eq!(table.ways_between.len(), 1);
        assert_eq!(table.hops(99_999, 0)[0].next, NodeIndex(33_333));
        assert_eq!(table.hops(0, 99_999)[0].next, NodeIndex(1));
        let ring: Vec<_> = (0..MOST_ON_RINGS + 1).map(|n| (n, n + 1)).collect();
        let ring = joined(MOST_ON_RINGS + 1, &ring);
        assert_eq!(Table::new(&ring).err(), Some(MOST_ON_RINGS + 1));
    }
}
