"""Who hears of each trial while a search runs (`tilesmith.callbacks`): functions of a person, and ready ones.

Each other program is one file, imported when it is asked for. Imports `measure.result` and records as data.
"""

from .callback import Callback
from .csv_log import CsvLog
from .event import TrialEvent
from .mlflow import MLflowLog
from .tensorboard import TensorBoardLog

__all__ = ["Callback", "CsvLog", "MLflowLog", "TensorBoardLog", "TrialEvent"]
