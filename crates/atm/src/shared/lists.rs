use layercast_core::DataClass;

use crate::{Cell, FrameId, Vcid};

/// No place.
const NONE: u32 = u32::MAX;
/// Last cells of frames that are passed over in search of another cell to remove.
const SEARCH: usize = 4;

/// A place in the buffer.
#[derive(Clone, Copy, Debug)]
struct Node {
    cell: Cell,
    /// The picture of its circuit that it is of.
    picture: u32,
    /// When it came: a count of cells.
    number: u64,
    /// Older and younger neighbours in order of arrival, and among cells of its class.
    older: u32,
    younger: u32,
    older_alike: u32,
    younger_alike: u32,
}

/// Cells in order of arrival, and the same for each class: the oldest is taken, and any is removed, in constant time.
#[derive(Debug)]
pub(super) struct Lists {
    nodes: Vec<Node>,
    /// Free places, linked by `younger`.
    free: u32,
    oldest: u32,
    youngest: u32,
    /// By class.
    oldest_alike: [u32; 4],
    youngest_alike: [u32; 4],
    counts: [u32; 4],
    number: u64,
}

impl Lists {
    pub fn new(size: u32) -> Lists {
        let free = |place: u32| Node {
            cell: Cell::of(FrameId(0), Vcid(0), 0, 1),
            picture: 0,
            number: 0,
            older: NONE,
            younger: if place + 1 < size { place + 1 } else { NONE },
            older_alike: NONE,
            younger_alike: NONE,
        };
        Lists {
            nodes: (0..size).map(free).collect(),
            free: 0,
            oldest: NONE,
            youngest: NONE,
            oldest_alike: [NONE; 4],
            youngest_alike: [NONE; 4],
            counts: [0; 4],
            number: 0,
        }
    }

    pub fn len(&self) -> u32 {
        self.counts.iter().sum()
    }

    pub fn count(&self, class: DataClass) -> u32 {
        self.counts[class.index()]
    }

    /// Adds a cell; there must be a free place.
    pub fn push_last(&mut self, cell: Cell, class: DataClass, picture: u32) {
        let place = self.free;
        let alike = &mut self.youngest_alike[class.index()];
        let node = Node {
            cell,
            picture,
            number: self.number,
            older: self.youngest,
            younger: NONE,
            older_alike: *alike,
            younger_alike: NONE,
        };
        self.number += 1;
        self.free = std::mem::replace(&mut self.nodes[place as usize], node).younger;
        match self.nodes.get_mut(*alike as usize) {
            Some(before) => before.younger_alike = place,
            None => self.oldest_alike[class.index()] = place,
        }
        *alike = place;
        match self.nodes.get_mut(self.youngest as usize) {
            Some(before) => before.younger = place,
            None => self.oldest = place,
        }
        self.youngest = place;
        self.counts[class.index()] += 1;
    }

    /// The place of the oldest cell.
    pub fn oldest(&self) -> Option<u32> {
        some(self.oldest)
    }

    /// The place of the cell behind that at a place.
    pub fn younger(&self, place: u32) -> Option<u32> {
        some(self.nodes[place as usize].younger)
    }

    /// The cell at a place, and the number of its picture.
    pub fn at(&self, place: u32) -> (Cell, u32) {
        let node = &self.nodes[place as usize];
        (node.cell, node.picture)
    }

    /// Takes the oldest cell.
    pub fn pop_first(&mut self) -> Option<Cell> {
        (self.oldest != NONE).then(|| self.remove(self.oldest).0)
    }

    /// The youngest cell of a class that is not the last of a frame of several cells, if one of the youngest is not: without
    /// its last cell a frame takes the next one with it.
    pub fn youngest(&self, class: DataClass) -> Option<u32> {
        let first = self.youngest_alike[class.index()];
        let older = |&place: &u32| some(self.nodes[place as usize].older_alike);
        let mut places = std::iter::successors(some(first), older).take(SEARCH);
        let is_inner = |&place: &u32| {
            let cell = self.nodes[place as usize].cell;
            !cell.is_last() || cell.is_first()
        };
        places.find(is_inner).or(some(first))
    }

    /// The youngest cell of several classes.
    pub fn youngest_of(&self, classes: impl Iterator<Item = DataClass>) -> Option<u32> {
        let places = classes.map(|class| self.youngest_alike[class.index()]);
        places
            .filter(|&place| place != NONE)
            .max_by_key(|&place| self.nodes[place as usize].number)
    }

    /// Takes the cell at a place; gives the number of its picture, too.
    pub fn remove(&mut self, place: u32) -> (Cell, u32) {
        let node = self.nodes[place as usize];
        let class = node.cell.class().index();
        match self.nodes.get_mut(node.older as usize) {
            Some(older) => older.younger = node.younger,
            None => self.oldest = node.younger,
        }
        match self.nodes.get_mut(node.younger as usize) {
            Some(younger) => younger.older = node.older,
            None => self.youngest = node.older,
        }
        match self.nodes.get_mut(node.older_alike as usize) {
            Some(older) => older.younger_alike = node.younger_alike,
            None => self.oldest_alike[class] = node.younger_alike,
        }
        match self.nodes.get_mut(node.younger_alike as usize) {
            Some(younger) => younger.older_alike = node.older_alike,
            None => self.youngest_alike[class] = node.older_alike,
        }
        self.nodes[place as usize].younger = self.free;
        self.free = place;
        self.counts[class] -= 1;
        (node.cell, node.picture)
    }
}

fn some(place: u32) -> Option<u32> {
    (place != NONE).then_some(place)
}
