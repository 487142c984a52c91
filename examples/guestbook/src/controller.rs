//! The controller of guestbooks.

use windlass::{ObjectBuilder as _, Runnable, k8s::core::v1::ConfigMap, prelude::*, rbac};

use crate::{Guestbook, GuestbookSpec, GuestbookStatus};

/// Returns the controller. It reconciles a guestbook when the guestbook or its page changes.
pub fn controller() -> impl Runnable {
    Controller::<Guestbook>::new().owns::<ConfigMap>().reconcile(reconcile)
}

#[rbac(groups = "example.com", resources = "guestbooks", verbs = "get,list,watch")]
#[rbac(groups = "example.com", resources = "guestbooks/status", verbs = "update")]
#[rbac(groups = "", resources = "configmaps", verbs = "get,list,watch,create,patch")]
async fn reconcile(book: Arc<Guestbook>, cx: Context) -> windlass::Result<Action> {
    let namespace = book.namespace().unwrap_or_default();
    let mut page = ConfigMap::named(book.name()).in_namespace(namespace).controlled_by(&*book);
    page.data = Some([("index.html".to_owned(), html(&book.spec))].into());
    cx.client().apply(&page).await?;

    let status = GuestbookStatus { entries: book.spec.entries.len() };
    if book.status.as_ref() != Some(&status) {
        let updated = Guestbook { status: Some(status), ..Guestbook::clone(&book) };
        cx.client().update_status(&updated).await?;
    }
    Ok(Action::await_change())
}

fn html(spec: &GuestbookSpec) -> String {
    let entries: Vec<_> = spec.entries.iter().map(|entry| format!("<li>{entry}</li>")).collect();
    format!("<h1>{}</h1><ul>{}</ul>", spec.title, entries.concat())
}
