-- A setting of the current database, which `SET CHARACTER SET` reads.
SET @@session.character_set_database = latin1;
SET CHARACTER SET latin1;
CREATE TABLE `notes` (
  `id` int NOT NULL AUTO_INCREMENT PRIMARY KEY,
  `text` varchar(60) CHARACTER SET utf8mb4,
  `data` blob
) DEFAULT CHARSET=latin1;
INSERT INTO `notes` VALUES (1,'über','über'),(2,'plain',NULL);
INSERT INTO `notes` (`id`, `data`) VALUES (3,'é');
