"""The documents whose claims are tested: chapters, systems and errata, as data."""

from .documents import DOCUMENTS as DOCUMENTS
from .documents import Document as Document
from .documents import Erratum as Erratum
from .documents import System as System
from .documents import document as document
from .documents import documents as documents
