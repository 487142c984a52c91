//! Reads a bbolt database, the format in which etcd keeps its data.
//!
//! A database is an array of pages. Page 0 or 1, whichever is newer, names the root page of a B+ tree of buckets. A
//! bucket is another tree, or a single page within the value that stands for the bucket.
//!
//! Guaranteed: a damaged file is an error that names the page. Each page is read at most once for each traversal, so
//! time and memory are bounded by the size of the file.
//!
//! Not guaranteed: that damage within keys and values is found. The format has no checksums for them; the caller checks
//! the whole file. The file must not change meanwhile.

use std::{fs::File, io, os::unix::fs::FileExt as _};

/// An open database.
#[derive(Debug)]
pub(crate) struct Bolt {
    file: File,
    /// The size of a page in bytes.
    size: u64,
    /// The number of pages in the file.
    pages: u64,
    root: PageId,
}

/// A bucket: a page that is the root of its tree.
#[derive(Debug)]
pub(crate) struct Bucket(Root);

#[derive(Debug)]
enum Root {
    Page(PageId),
    /// The page itself.
    Inline(Page),
}

/// The index of a page in the file.
type PageId = u64;

/// The error for a file that is no intact database.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BoltError {
    #[error("reading at byte {at}")]
    Read { at: u64, source: io::Error },
    #[error("it is no bbolt database")]
    Meta,
    #[error("page {page} is damaged: {problem}")]
    Page { page: PageId, problem: &'static str },
}

/// The bytes of a page with its overflow.
#[derive(Debug)]
struct Page {
    id: PageId,
    bytes: Vec<u8>,
}

/// An element of a leaf page.
struct Leaf<'p> {
    is_bucket: bool,
    key: &'p [u8],
    value: &'p [u8],
}

/// The size of a page's head: id, kind, number of elements, number of further pages.
const HEAD: usize = 16;
/// The size of an element's head.
const ELEMENT: usize = 16;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const META: u16 = 4;
/// The flag of a leaf element whose value is a bucket.
const BUCKET: u32 = 1;
/// The size of a bucket's head: root page, sequence number.
const BUCKET_HEAD: usize = 16;
const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
/// The size of a meta page's content before its checksum.
const META_SIZE: usize = 56;
/// The depth of a tree with more pages than a file can have.
const MAX_DEPTH: usize = 64;
/// The possible sizes of a page, as powers of two.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 9..=16;

impl Bolt {
    /// Opens a database: the first `length` bytes of a file.
    pub(crate) fn open(file: File, length: u64) -> Result<Self, BoltError> {
        let mut bolt = Self { file, size: 0, pages: 0, root: 0 };
        let mut newest: Option<Meta> = None;
        // The first page may be damaged, and then the size of a page is unknown.
        let second = PAGE_SIZES.map(|size| 1 << size);
        for at in [0].into_iter().chain(second) {
            let size = HEAD + META_SIZE + 8;
            if at + size as u64 > length {
                break;
            }
            let meta = Meta::decode(&bolt.read(at, size)?).filter(|meta| at == 0 || at == meta.page_size);
            newest = newest.into_iter().chain(meta).max_by_key(|meta| meta.transaction);
        }
        let meta = newest.ok_or(BoltError::Meta)?;
        (bolt.size, bolt.root) = (meta.page_size, meta.root);
        bolt.pages = length / bolt.size;
        Ok(bolt)
    }

    /// Returns the bucket with a name.
    pub(crate) fn bucket(&self, name: &[u8]) -> Result<Option<Bucket>, BoltError> {
        let mut found = None;
        self.visit(&Bucket(Root::Page(self.root)), |page, leaf| {
            if leaf.is_bucket && leaf.key == name {
                found = Some(Bucket::decode(page, leaf.value)?);
            }
            Ok::<_, BoltError>(())
        })?;
        Ok(found)
    }

    /// Visits the keys and values of a bucket, in the order of the keys. Each key is visited once.
    pub(crate) fn each<E: From<BoltError>>(
        &self,
        bucket: &Bucket,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.visit(bucket, |_, leaf| if leaf.is_bucket { Ok(()) } else { visit(leaf.key, leaf.value) })
    }

    fn visit<E: From<BoltError>>(
        &self,
        bucket: &Bucket,
        mut visit: impl FnMut(PageId, Leaf<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut last: Option<Vec<u8>> = None;
        let mut visit = |page: PageId, leaf: Leaf<'_>| {
            if last.as_deref().is_some_and(|last| last >= leaf.key) {
                return Err(BoltError::Page { page, problem: "its keys are not in order" }.into());
            }
            let last = last.get_or_insert_default();
            last.clear();
            last.extend(leaf.key);
            visit(page, leaf)
        };
        let root = match &bucket.0 {
            Root::Inline(page) => return page.each_leaf(&mut visit),
            Root::Page(root) => *root,
        };
        let mut left = self.pages;
        // The pages to visit, the next one last.
        let mut stack = vec![(root, 0)];
        while let Some((id, depth)) = stack.pop() {
            let problem = |problem| BoltError::Page { page: id, problem };
            let page = self.page(id)?;
            // In an intact tree, each page of the file has one parent.
            let used = page.bytes.len() as u64 / self.size;
            left = left.checked_sub(used).ok_or_else(|| problem("it is in the tree more than once"))?;
            if page.kind()? != BRANCH {
                page.each_leaf(&mut visit)?;
                continue;
            }
            if depth == MAX_DEPTH {
                return Err(problem("it is too deep in the tree").into());
            }
            for index in (0..page.count()?).rev() {
                stack.push((page.child(index)?, depth + 1));
            }
        }
        Ok(())
    }

    /// Reads a page with its overflow.
    fn page(&self, id: PageId) -> Result<Page, BoltError> {
        let problem = |problem| BoltError::Page { page: id, problem };
        if id >= self.pages {
            return Err(problem("it is beyond the end of the file"));
        }
        let head = Page { id, bytes: self.read(id * self.size, HEAD)? };
        if head.number::<8>(0).map(u64::from_le_bytes)? != id {
            return Err(problem("it has the number of another page"));
        }
        let further = u64::from(u32::from_le_bytes(head.number(12)?));
        if further >= self.pages - id {
            return Err(problem("it reaches beyond the end of the file"));
        }
        let size = usize::try_from((further + 1) * self.size).map_err(|_| problem("it is too large"))?;
        Ok(Page { id, bytes: self.read(id * self.size, size)? })
    }

    fn read(&self, at: u64, size: usize) -> Result<Vec<u8>, BoltError> {
        let mut bytes = vec![0; size];
        self.file.read_exact_at(&mut bytes, at).map_err(|source| BoltError::Read { at, source })?;
        Ok(bytes)
    }
}

impl Bucket {
    /// Decodes the value that stands for a bucket on a page.
    fn decode(page: PageId, value: &[u8]) -> Result<Self, BoltError> {
        let problem = || BoltError::Page { page, problem: "a bucket is too short" };
        let (head, inline) = value.split_at_checked(BUCKET_HEAD).ok_or_else(problem)?;
        let root = head.first_chunk().copied().map(u64::from_le_bytes).ok_or_else(problem)?;
        Ok(Self(if root == 0 { Root::Inline(Page { id: page, bytes: inline.to_vec() }) } else { Root::Page(root) }))
    }
}

impl Page {
    fn problem(&self, problem: &'static str) -> BoltError {
        BoltError::Page { page: self.id, problem }
    }

    /// Returns the bytes of a number.
    fn number<const N: usize>(&self, at: usize) -> Result<[u8; N], BoltError> {
        let bytes = self.bytes.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.copied().ok_or_else(|| self.problem("it is too short"))
    }

    fn kind(&self) -> Result<u16, BoltError> {
        self.number(8).map(u16::from_le_bytes)
    }

    fn count(&self) -> Result<usize, BoltError> {
        self.number(10).map(|count| usize::from(u16::from_le_bytes(count)))
    }

    /// Returns a child of a branch page.
    fn child(&self, index: usize) -> Result<PageId, BoltError> {
        self.number(HEAD + index * ELEMENT + 8).map(u64::from_le_bytes)
    }

    fn each_leaf<E: From<BoltError>>(
        &self,
        visit: &mut impl FnMut(PageId, Leaf<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.kind()? != LEAF {
            return Err(self.problem("it is neither a branch nor a leaf").into());
        }
        for index in 0..self.count()? {
            let at = HEAD + index * ELEMENT;
            let number = |offset| self.number(at + offset).map(u32::from_le_bytes);
            let (flags, place) = (number(0)?, number(4)? as usize);
            let (key, value) = (number(8)? as usize, number(12)? as usize);
            let bytes = self.bytes.get(at..).and_then(|bytes| bytes.get(place..));
            let bytes = bytes.and_then(|bytes| bytes.get(..key.checked_add(value)?));
            let (key, value) =
                bytes.map(|bytes| bytes.split_at(key)).ok_or_else(|| self.problem("an element is outside of it"))?;
            visit(self.id, Leaf { is_bucket: flags & BUCKET != 0, key, value })?;
        }
        Ok(())
    }
}

/// The content of a meta page.
#[derive(Clone, Copy, Debug)]
struct Meta {
    page_size: u64,
    root: PageId,
    transaction: u64,
}

impl Meta {
    /// Returns `None` if the page is no intact meta page.
    fn decode(page: &[u8]) -> Option<Self> {
        let (head, page) = page.split_at_checked(HEAD)?;
        let (meta, checksum) = page.split_at_checked(META_SIZE)?;
        let short = |at: usize| Some(u32::from_le_bytes(*meta.get(at..)?.first_chunk()?));
        let long = |at: usize| Some(u64::from_le_bytes(*meta.get(at..)?.first_chunk()?));
        let kind = u16::from_le_bytes(*head.get(8..)?.first_chunk()?);
        let is_meta = kind == META && short(0)? == MAGIC && short(4)? == VERSION;
        let page_size = u64::from(short(8)?);
        let is_size = page_size.is_power_of_two() && PAGE_SIZES.contains(&page_size.trailing_zeros());
        if !is_meta || !is_size || u64::from_le_bytes(*checksum.first_chunk()?) != fnv(meta) {
            return None;
        }
        Some(Self { page_size, root: long(16)?, transaction: long(48)? })
    }
}

/// Returns the checksum of a meta page, FNV-1a.
fn fnv(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}
