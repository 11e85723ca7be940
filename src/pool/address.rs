//! The address of a node, and what the lists of free nodes need of the nodes' memory.
#![expect(unsafe_code, reason = "nodes live in raw memory")]

use crate::links::NodeId;
use crate::node::Meta;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The address of a node, for several accesses to it.
#[derive(Clone, Copy)]
pub struct Address<'p>(NonNull<u8>, PhantomData<&'p ()>);

impl<'p> Address<'p> {
    /// The address of a node of a pool that lives for `'p`.
    ///
    /// # Safety
    /// A node begins there, which stays until `'p` ends (rule 1).
    #[inline(always)]
    pub unsafe fn new(node: NonNull<u8>) -> Self {
        Self(node, PhantomData)
    }

    /// The node's fixed part. It is valid for every thread that knows the node (rule 1).
    #[inline(always)]
    pub fn meta(self) -> &'p Meta {
        // SAFETY: by rule 1, each stride of a chunk starts with an initialised Meta that stays
        // until the pool is dropped. All its fields are atomics. The caller of `new` has promised
        // that a stride starts here and that the pool lives for `'p`.
        unsafe { self.0.cast::<Meta>().as_ref() }
    }

    /// A pointer to what lies `offset` bytes after the start of the node.
    #[inline(always)]
    pub(super) fn at_offset<T>(self, offset: usize) -> *mut T {
        self.0.as_ptr().wrapping_add(offset).cast::<T>()
    }
}

/// The memory of nodes, for the lists of free ones.
pub trait NodeMemory {
    /// The address of a node. Its fixed part may be used at any time.
    fn at(&self, id: NodeId) -> Address<'_>;

    /// The number of ids that were ever handed out.
    fn handed_out(&self) -> usize;

    /// The number of free ids that are not in the reserve: an estimate while others take them.
    fn free_len(&self) -> usize;

    /// Takes a free id that is not in the reserve.
    fn pop_free(&self) -> Option<NodeId>;

    /// Gives the memory of a block of free nodes back to the system.
    fn give_back(&self, first: NodeId, nodes: usize);
}
