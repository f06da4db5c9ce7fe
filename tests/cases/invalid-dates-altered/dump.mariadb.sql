-- The mode that lets dates be invalid is gone when indexes are built behind the rows: they must stay as they are.
SET NAMES utf8mb4;
SET time_zone='+00:00', sql_mode='ALLOW_INVALID_DATES';
CREATE TABLE t (id INT PRIMARY KEY, d DATE, dt DATETIME(6), i INT, KEY k (i), KEY d (d), UNIQUE KEY u (i DESC, id), CONSTRAINT c CHECK (i > 0 OR i IS NULL));
INSERT INTO t VALUES (1, '2024-02-30', '2024-02-31 15:41:06.669917', 1), (2, '2024-04-31', NULL, NULL), (3, '0000-00-00', '2024-06-31', 2);
SET sql_mode='';
INSERT INTO t VALUES (4, '2024-01-01', '2024-01-02', 5);
-- Dump completed
